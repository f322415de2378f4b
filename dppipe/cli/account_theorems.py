"""`dppipe account --step-epsilon`: mechanisms of which only epsilon and delta are known."""

from __future__ import annotations

import math
from typing import Any

import typer

from dppipe.cli.account_sampler import check_positive
from dppipe.errors import UsageError
from dppipe.privacy.events.sequences import MOST_COUNTED

_OPTIONS = ("delta", "sample_rate", "steps", "step_epsilon", "step_delta", "as_json")


def refuse_other_options(context: typer.Context) -> None:
    """Refuse options that don't apply to mechanisms known by epsilon and delta alone."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _OPTIONS and source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option}: expected none with --step-epsilon, whose mechanisms are known by "
                "epsilon and delta alone."
            )


def refuse_step_delta(delta: float) -> None:
    """Refuse `--step-delta` where `--step-epsilon` isn't given."""
    if delta:
        raise UsageError(
            f"--step-delta: expected none without --step-epsilon, got {delta:g}. "
            "Give both, or leave it out."
        )


def compose_by_theorems(
    epsilon: float, delta: float, *, steps: int | None, rate: float, deltas: list[float]
) -> list[dict[str, Any]]:
    """Compose equal (epsilon, delta) mechanisms by each theorem, sampled at a rate."""
    from dppipe.privacy.textbook.one_step import amplified
    from dppipe.privacy.textbook.theorems import advanced_epsilon, basic_epsilon, optimal_epsilon

    count = _checked_steps(epsilon, delta, steps=steps, rate=rate)
    each = amplified(epsilon, rate)
    each_delta = rate * delta
    found = [_row("basic", basic_epsilon([(each, count)]), count * each_delta, count)]
    for total in deltas:
        slack = total - count * each_delta
        advanced = advanced_epsilon([(each, count)], slack=slack) if slack > 0 else math.inf
        optimal = optimal_epsilon(each, delta=each_delta, count=count, total_delta=total)
        found.append(_row("advanced", advanced, total, count))
        found.append(_row("optimal", optimal, total, count))
    return found


def _row(theorem: str, epsilon: float, delta: float, steps: int) -> dict[str, Any]:
    from dppipe.privacy.rounding import round_up

    return {
        "theorem": theorem,
        "epsilon": round_up(epsilon, 6) if math.isfinite(epsilon) else None,
        "delta": round_up(delta, 12),
        "steps": steps,
    }


def _checked_steps(epsilon: float, delta: float, *, steps: int | None, rate: float) -> int:
    """Return the number of mechanisms; refuse options that are out of range."""
    check_positive("--step-epsilon", epsilon)
    if steps is None or not 1 <= steps <= MOST_COUNTED:
        got = "none" if steps is None else steps
        raise UsageError(
            "--steps: expected how many mechanisms are composed, "
            f"from 1 to {MOST_COUNTED:,}, got {got}."
        )
    if not 0 <= delta < 1:
        raise UsageError(
            f"--step-delta: expected a number of at least 0 and below 1, got {delta:g}."
        )
    if not 0 < rate <= 1:
        raise UsageError(f"--sample-rate: expected a number above 0 and at most 1, got {rate:g}.")
    return steps
