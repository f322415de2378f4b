"""What would fit in a scope that a run doesn't fit in: fewer steps, more noise, less epsilon."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dppipe.budgets.scopes import Scope, Status, counted, percent_left, percent_used
from dppipe.privacy.calibration import last_between
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import Steps, first, total
from dppipe.privacy.filters.filters import Amount, Commitment
from dppipe.privacy.rounding import round_down, round_up
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_NOISE = 1000.0


def refusal(others: Status, commitment: Commitment) -> str:
    """Return the message that a run doesn't fit beside the other runs of its scope, and what does.

    Args:
        others: The scope and its other runs.
        commitment: What the run may do at most.
    """
    scope = others.scope
    cost = scope.rule.cost(commitment)
    open_runs = sum(1 for entry in others.runs if entry.state == "reserved")
    hint = ""
    if open_runs:
        settle = (
            f"`{shown_command('budget', 'reconcile', scope.name)}` settles those that have crashed"
        )
        hint = f" Reservations are open ({counted(open_runs)}): {settle}."
    return (
        f"budget.scope: {scope.name!r} has {percent_left(others.left)} of its room left, "
        f"and this run needs {percent_used(scope.share(cost))}. "
        f"{what_fits(scope, commitment, room=others.room)}{hint}"
    )


def what_fits(scope: Scope, commitment: Commitment, *, room: Amount) -> str:
    """Return in words what a run could be changed to."""
    if not scope.rule.refunds:
        epsilon = scope.rule.largest_certificate(room)
        most = f"epsilon of at most {round_down(epsilon, 3):g}"
        return f"A run with {most} at delta of at most {round_down(room.delta, 3):g} fits."
    if not commitment.takes_steps:
        return _noise_that_fits(scope, commitment, room=room)
    changes = []
    steps = affordable_steps(scope, commitment, room=room)
    if steps:
        changes.append(f"{steps} of its {total(commitment.steps)} steps with the same noise")
    factor = affordable_noise(scope, commitment, room=room)
    if factor is not None:
        factor = round_up(factor, 3)
        lowest = round_up(_lowest_multiplier(commitment.steps) * factor, 4)
        changes.append(
            f"all its steps with {factor:g} times the noise (a noise multiplier of {lowest:g})"
        )
    if not changes:
        return "Nothing fits: not one step, whatever its noise."
    return f"What fits: {', or '.join(changes)}."


def _noise_that_fits(scope: Scope, commitment: Commitment, *, room: Amount) -> str:
    """Return how much noise lets the releases of a run without steps fit, in words."""
    factor = affordable_noise(scope, commitment, room=room)
    if factor is None:
        return "Its releases don't fit, whatever their noise."
    more = f"{round_up(factor, 3):g} times the noise"
    return f"What fits: its releases with {more}. Lower budget.epsilon, or raise the noise."


def affordable_steps(scope: Scope, commitment: Commitment, *, room: Amount) -> int:
    """Return the largest number of the run's first steps that fits."""

    def fits(count: int) -> bool:
        shorter = replace(commitment, steps=first(commitment.steps, count))
        return scope.rule.cost(shorter).fits(room)

    return last_between(0, total(commitment.steps) + 1, fits=fits)


def affordable_noise(
    scope: Scope,
    commitment: Commitment,
    *,
    room: Amount,
    precision: float = 2e-3,
) -> float | None:
    """Return the smallest factor on the noise with which all steps fit; None if none does.

    Args:
        scope: The scope that the run should fit in.
        commitment: The run's steps.
        room: What the scope has left.
        precision: How far the factor may be above the smallest one, relatively.
    """

    def fits(factor: float) -> bool:
        noisier = replace(commitment, steps=scale_noise(commitment.steps, factor))
        return scope.rule.cost(noisier).fits(room)

    if not fits(_MOST_NOISE):
        return None
    bad = 1.0
    good = _MOST_NOISE
    while good > (1 + precision) * bad:
        middle = math.sqrt(bad * good)
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def scale_noise(steps: Steps, factor: float) -> list[tuple[DpEvent, int]]:
    """Return the steps with every noise times `factor`."""
    scaled = []
    for event, count in steps:
        data = _scaled(event_to_data(event), factor)
        scaled.append((event_from_data(data), count))
    return scaled


def _scaled(data: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return an event's data with every noise in it times `factor`."""
    changed = dict(data)
    for name, value in data.items():
        if isinstance(value, dict):
            changed[name] = _scaled(value, factor)
        elif name == "events":
            changed[name] = [_scaled(part, factor) for part in value]
        elif name == "noise_multiplier":
            changed[name] = value * factor
        elif name == "epsilon" and data["type"] == "ExponentialMechanismDpEvent":
            changed[name] = value / factor
    return changed


def _lowest_multiplier(steps: Steps) -> float:
    multipliers: list[float] = []
    for event, _ in steps:
        multipliers += _multipliers(event_to_data(event))
    return min(multipliers, default=0.0)


def _multipliers(data: dict[str, Any]) -> list[float]:
    """Return every noise multiplier in an event's data."""
    multipliers: list[float] = []
    for name, value in data.items():
        if isinstance(value, dict):
            multipliers += _multipliers(value)
        elif name == "events":
            for part in value:
                multipliers += _multipliers(part)
        elif name == "noise_multiplier":
            multipliers.append(value)
    return multipliers
