"""What would fit in a scope that a run doesn't fit in: fewer steps, more noise, or a smaller certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dppipe.budgets.scopes import Scope
from dppipe.privacy.accountants.base import Steps
from dppipe.privacy.events import event_from_data, event_to_data
from dppipe.privacy.filters import Amount, Commitment
from dppipe.privacy.rounding import round_up
from dppipe.privacy.steps import first, total

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_NOISE = 1000.0


def what_fits(scope: Scope, commitment: Commitment, *, room: Amount) -> str:
    """Say in words what a run could be changed to."""
    if not scope.rule.refunds:
        epsilon = math.sqrt(room.amount) if scope.rule.kind == "advanced" else room.amount
        return f"A run with epsilon of at most {_down(epsilon)} at delta of at most {_down(room.delta)} fits."
    steps, factor = affordable_steps(scope, commitment, room=room), affordable_noise(scope, commitment, room=room)
    ways = [f"{steps} of its {total(commitment.steps)} steps"] if steps else []
    if factor is not None:
        lowest = min((z for event, _ in commitment.steps for z in _multipliers(event_to_data(event))), default=0.0)
        ways.append(f"all its steps with {factor:g} times the noise (a noise multiplier of {round_up(lowest * factor, 4):g})")
    return f"What fits: {', or '.join(ways)}." if ways else "Nothing fits: not one step, whatever its noise."


def affordable_steps(scope: Scope, commitment: Commitment, *, room: Amount) -> int:
    """Give the largest number of the run's first steps that fits."""
    good, bad = 0, total(commitment.steps) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        fits = scope.rule.cost(replace(commitment, steps=first(commitment.steps, middle))).fits(room)
        good, bad = (middle, bad) if fits else (good, middle)
    return good


def affordable_noise(scope: Scope, commitment: Commitment, *, room: Amount) -> float | None:
    """Give the smallest factor on the noise, to three digits, with which all steps fit; None if a thousandfold isn't enough."""

    def fits(factor: float) -> bool:
        return scope.rule.cost(replace(commitment, steps=scale_noise(commitment.steps, factor))).fits(room)

    if not fits(_MOST_NOISE):
        return None
    bad, good = 1.0, _MOST_NOISE
    while good > 1.002 * bad:
        middle = math.sqrt(bad * good)
        bad, good = (bad, middle) if fits(middle) else (middle, good)
    return round_up(good, 3)


def scale_noise(steps: Steps, factor: float) -> list[tuple[DpEvent, int]]:
    """Give the steps with every noise multiplier times `factor`."""
    return [(event_from_data(_scaled(event_to_data(event), factor)), count) for event, count in steps]


def _scaled(data: dict[str, Any], factor: float) -> dict[str, Any]:
    changed = {name: _scaled(value, factor) for name, value in data.items() if isinstance(value, dict)}
    if "noise_multiplier" in data:
        changed["noise_multiplier"] = data["noise_multiplier"] * factor
    return data | changed


def _multipliers(data: dict[str, Any]) -> list[float]:
    inner = [z for value in data.values() if isinstance(value, dict) for z in _multipliers(value)]
    return [*inner, data["noise_multiplier"]] if "noise_multiplier" in data else inner


def _down(value: float) -> str:
    """Write a number with three digits, rounded down: what is said to fit must fit."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / unit * (1 - 1e-12)) * unit:.3g}"
