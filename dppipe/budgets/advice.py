"""Which `budget.epsilon` lets a run fit into what its scope has left.

Every answer was tried: the run is planned with it, and its cost is compared with the scope's room
as a reservation does it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10

from dppipe.budgets.commitments import commit
from dppipe.budgets.fitting import affordable_noise, affordable_steps, scale_noise
from dppipe.budgets.scopes import Status
from dppipe.errors import DppipeError, PrivacyRefusal
from dppipe.planning.parts import PrivateParts
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts
from dppipe.planning.replanning import replanned
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.events.sequences import first, total

_DIGITS = 4
_PRECISION = 1e-5
_MOST_TRIES = 40
_SMALLEST = 0.01
"""No smaller epsilon is advised: a run within it would learn nothing."""


def affordable_epsilon(others: Status, plan: StepPlan, parts: PrivateParts) -> float | None:
    """Return the largest `budget.epsilon` of four digits with which a run fits; None if none does.

    Guarantee: planned with this epsilon the run fits beside `others`; with the next larger number
    of four digits it doesn't.

    Args:
        others: The scope and its other runs.
        plan: The plan that doesn't fit.
        parts: What it was made from.
    """

    def fits(epsilon: float) -> bool:
        try:
            made = replanned(plan, parts, epsilon=epsilon)
            return made is not None and others.fits(others.scope.rule.cost(commit(made, parts)))
        except PrivacyRefusal:  # not one step fits in so small an epsilon
            return False

    try:
        guess = _guess(others, plan, parts)
    except DppipeError:
        return None
    if guess is None or plan.epsilon is None:
        return None
    return _largest(fits, guess=min(guess, plan.epsilon))


def with_advice(
    message: str, others: Status, plan: Plan, parts: PrivateParts | LearnerParts
) -> str:
    """Add the epsilon that fits to a message about a run that doesn't, if it takes steps."""
    if not isinstance(plan, StepPlan) or not isinstance(parts, PrivateParts):
        return message
    epsilon = affordable_epsilon(others, plan, parts)
    if epsilon is None:
        return message
    return f"{message} Or set budget.epsilon: {epsilon:g}, with which it fits."


def _guess(others: Status, plan: StepPlan, parts: PrivateParts) -> float | None:
    """Return roughly the epsilon that fits; None if none does.

    Where the noise is calibrated to epsilon, the run gets more noise; else it takes fewer steps.
    """
    scope = others.scope
    room = others.room
    commitment = commit(plan, parts)
    if not scope.rule.refunds:
        return scope.rule.largest_certificate(room) or None
    if parts.noise.noise_multiplier == "auto":
        factor = affordable_noise(scope, commitment, room=room, precision=_PRECISION)
        if factor is None:
            return None
        steps = scale_noise(commitment.steps, factor)
    else:
        count = affordable_steps(scope, commitment, room=room)
        steps = list(first(commitment.steps, min(count + 1, total(commitment.steps))))
    return parts.accountant.compose(steps, relation=commitment.relation).epsilon(commitment.delta)


def _largest(fits: Callable[[float], bool], *, guess: float) -> float | None:
    """Search from a guess for the largest number of four digits that fits; None if none does."""
    if guess < _SMALLEST:
        return None
    places = _DIGITS - 1 - floor(log10(guess))
    least = ceil(_SMALLEST * 10.0**places)

    def value(index: int) -> float:
        return float(f"{index * 10.0**-places:.12g}")

    good = 0
    bad: int | None = None
    index = max(least, floor(guess * 10.0**places))
    stride = 1
    for _ in range(_MOST_TRIES):
        if fits(value(index)):
            good = index
        else:
            bad = index
        if bad in (good + 1, least):
            break
        if bad is not None and good:
            index = (good + bad) // 2
        else:
            index = index + stride if bad is None else max(least, index - stride)
            stride = 2 * stride
    return value(good) if good and bad == good + 1 else None
