"""What would fit in a scope that a run doesn't fit in: fewer steps, more noise, or a smaller certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dppipe.budgets.scopes import Scope, Status, counted, percent_left, percent_used
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import Steps, first, total
from dppipe.privacy.filters.filters import Amount, Commitment
from dppipe.privacy.rounding import round_down, round_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_NOISE = 1000.0


def refusal(others: Status, commitment: Commitment) -> str:
    """Say that a run doesn't fit beside the other runs of its scope, and what would.

    Args:
        others: The scope and its other runs.
        commitment: What the run may do at most.
    """
    scope, cost = others.scope, others.scope.rule.cost(commitment)
    open_runs = sum(1 for entry in others.runs if entry.state == "reserved")
    hint = ""
    if open_runs:
        settle = f"`dppipe budget reconcile {scope.name}` settles those that have crashed"
        hint = f" Reservations are open ({counted(open_runs)}): {settle}."
    return (
        f"budget.scope: {scope.name!r} has {percent_left(others.left)} of its room left, "
        f"and this run needs {percent_used(scope.share(cost))}. "
        f"{what_fits(scope, commitment, room=others.room)}{hint}"
    )


def what_fits(scope: Scope, commitment: Commitment, *, room: Amount) -> str:
    """Say in words what a run could be changed to."""
    if not scope.rule.refunds:
        epsilon = scope.rule.largest_certificate(room)
        most = f"epsilon of at most {round_down(epsilon, 3):g}"
        return f"A run with {most} at delta of at most {round_down(room.delta, 3):g} fits."
    steps, factor = (
        affordable_steps(scope, commitment, room=room),
        affordable_noise(scope, commitment, room=room),
    )
    ways = [f"{steps} of its {total(commitment.steps)} steps with the same noise"] if steps else []
    if factor is not None:
        factor = round_up(factor, 3)
        lowest = min(
            (z for event, _ in commitment.steps for z in _multipliers(event_to_data(event))),
            default=0.0,
        )
        ways.append(
            f"all its steps with {factor:g} times the noise (a noise multiplier of {round_up(lowest * factor, 4):g})"
        )
    return (
        f"What fits: {', or '.join(ways)}."
        if ways
        else "Nothing fits: not one step, whatever its noise."
    )


def affordable_steps(scope: Scope, commitment: Commitment, *, room: Amount) -> int:
    """Give the largest number of the run's first steps that fits."""
    good, bad = 0, total(commitment.steps) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        fits = scope.rule.cost(replace(commitment, steps=first(commitment.steps, middle))).fits(
            room
        )
        good, bad = (middle, bad) if fits else (good, middle)
    return good


def affordable_noise(
    scope: Scope,
    commitment: Commitment,
    *,
    room: Amount,
    precision: float = 2e-3,
) -> float | None:
    """Return the smallest factor on the noise with which all steps fit; None if none does.

    Args:
        scope: What the run is to fit in.
        commitment: The run's steps.
        room: What the scope has left.
        precision: How far the factor may be above the smallest one, as a part of it.
    """

    def fits(factor: float) -> bool:
        return scope.rule.cost(
            replace(commitment, steps=scale_noise(commitment.steps, factor))
        ).fits(room)

    if not fits(_MOST_NOISE):
        return None
    bad, good = 1.0, _MOST_NOISE
    while good > (1 + precision) * bad:
        middle = math.sqrt(bad * good)
        bad, good = (bad, middle) if fits(middle) else (middle, good)
    return good


def scale_noise(steps: Steps, factor: float) -> list[tuple[DpEvent, int]]:
    """Give the steps with every noise multiplier times `factor`."""
    return [
        (event_from_data(_scaled(event_to_data(event), factor)), count) for event, count in steps
    ]


def _scaled(data: dict[str, Any], factor: float) -> dict[str, Any]:
    changed = {
        name: _scaled(value, factor) for name, value in data.items() if isinstance(value, dict)
    }
    if "noise_multiplier" in data:
        changed["noise_multiplier"] = data["noise_multiplier"] * factor
    return data | changed


def _multipliers(data: dict[str, Any]) -> list[float]:
    inner = [z for value in data.values() if isinstance(value, dict) for z in _multipliers(value)]
    return [*inner, data["noise_multiplier"]] if "noise_multiplier" in data else inner
