"""The noise that lands on a budget, and the steps that fit in one.

Both search over an accountant's certified epsilon, so both are as strict as the accountant: what they return was itself
evaluated and found within the budget. Noise is rounded up, steps are rounded down, epsilon for print is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Steps, require_certificate
from dppipe.privacy.budget import Budget
from dppipe.privacy.rounding import round_up
from dppipe.privacy.steps import first, total

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_DIGITS = 5
_SMALLEST, _LARGEST = 1e-3, 1e6
"""The noise scales that are looked at: below, nothing is private; above, nothing is learned."""
_MOST_STEPS = 10**9


@dataclass(frozen=True)
class Calibration:
    """A noise scale and the epsilon that it costs."""

    scale: float
    epsilon: float


def calibrate(accountant: Accountant, steps_at: Callable[[float], Steps], *, budget: Budget) -> Calibration:
    """Find the smallest noise scale whose steps cost at most the budget, rounded up to five digits.

    Guarantee: `epsilon` was evaluated at the rounded `scale` and is at most `budget.epsilon`.

    Args:
        accountant: What the steps are charged by; an estimate is refused.
        steps_at: The planned events at a noise scale; more scale must mean less cost.
        budget: The target, and the relation it is measured under.
    """

    def epsilon(scale: float) -> float:
        return require_certificate(accountant.compose(steps_at(scale), relation=budget.relation)).epsilon(budget.delta)

    low, high = _bracket(epsilon, target=budget.epsilon)
    scale = round_up(_root(epsilon, low, high, target=budget.epsilon), _DIGITS)
    for _ in range(20):
        reached = epsilon(scale)
        if reached <= budget.epsilon:
            return Calibration(scale, reached)
        scale = round_up(math.nextafter(scale, math.inf), _DIGITS)
    raise PrivacyRefusal(f"noise: expected a noise multiplier for epsilon {budget.epsilon:g}, found none near {scale:g}.")


def affordable_steps(accountant: Accountant, planned: DpEvent | Steps, *, budget: Budget, at_most: int | None = None) -> int:
    """Find the largest number of steps within the budget; 0 if not even one fits.

    Args:
        accountant: What the steps are charged by; an estimate is refused.
        planned: One event that is repeated, or the steps of a committed schedule in order.
        budget: The target, and the relation it is measured under.
        at_most: A limit on the answer, such as the number of planned steps.
    """
    most = _MOST_STEPS if at_most is None else at_most
    steps: Steps = planned if isinstance(planned, list | tuple) else [(planned, most)]
    most = min(most, total(steps))

    def fits(count: int) -> bool:
        composed = require_certificate(accountant.compose(first(steps, count), relation=budget.relation))
        return composed.epsilon(budget.delta) <= budget.epsilon

    good, bad = 0, 1
    while bad <= most and fits(bad):
        good, bad = bad, min(2 * bad, most + 1) if bad < most else most + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def _bracket(epsilon: Callable[[float], float], *, target: float) -> tuple[float, float]:
    """Find a scale that costs more than the target and one that costs at most it."""
    high = 1.0
    if epsilon(high) <= target:
        while high > _SMALLEST and epsilon(high / 2) <= target:
            high /= 2
        return high / 2, high
    while high < _LARGEST and epsilon(2 * high) > target:
        high *= 2
    if high >= _LARGEST:
        raise PrivacyRefusal(
            f"budget.epsilon: expected a budget that some noise can keep, got {target:g}: even a noise multiplier of {high:g} "
            "costs more. Raise epsilon or delta, or plan fewer steps."
        )
    return high, 2 * high


def _root(epsilon: Callable[[float], float], low: float, high: float, *, target: float) -> float:
    """Narrow a bracket to about six digits; epsilon is nearly a power of the scale, so logarithms are searched."""
    from scipy.optimize import brentq

    def excess(log_scale: float) -> float:
        return math.log(min(max(epsilon(math.exp(log_scale)), 1e-12), 1e12) / target)

    if excess(math.log(low)) <= 0:
        return low
    return math.exp(brentq(excess, math.log(low), math.log(high), xtol=2e-6))
