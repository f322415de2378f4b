"""The noise that lands on a budget, and the steps that fit in one.

Both search over an accountant's certified epsilon, so both are as strict as the accountant: what
they return was itself evaluated and found within the budget. Noise is rounded up, steps are rounded
down, epsilon for print is rounded up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, require_certificate
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.sequences import MOST_COUNTED, Steps, first, total
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_DIGITS = 5
_SMALLEST, _LARGEST = 1e-3, 1e6
"""The noise scales that are searched: below, nothing is private; above, nothing is learned."""


@dataclass(frozen=True)
class Calibration:
    """A noise scale and the epsilon that it costs."""

    scale: float
    epsilon: float


def calibrate(
    accountant: Accountant,
    steps_at: Callable[[float], Steps],
    *,
    budget: Budget,
    allow_estimate: bool = False,
) -> Calibration:
    """Find the smallest noise scale whose steps cost at most the budget, rounded up to five digits.

    Guarantee: `epsilon` was evaluated at the rounded `scale` and is at most `budget.epsilon`.

    Args:
        accountant: What the steps are charged by.
        steps_at: The planned events at a noise scale; more scale must mean less cost.
        budget: The target, and the relation it is measured under.
        allow_estimate: Whether an estimate will do, which no run may rest on; else it is refused.

    Example:
        >>> from dp_accounting import GaussianDpEvent
        >>> from dppipe import Budget
        >>> from dppipe.privacy.accountants import Rdp
        >>> from dppipe.privacy.calibration import calibrate
        >>> budget = Budget(epsilon=1.0, delta=1e-5)
        >>> calibrate(Rdp(), lambda z: [(GaussianDpEvent(z), 100)], budget=budget).epsilon <= 1.0
        True
    """
    exact = _costs(accountant, steps_at, budget, allow_estimate)
    rough = _costs(accountant.rough(), steps_at, budget, allow_estimate)
    try:
        start = _root(rough, target=budget.epsilon, start=1.0, factor=2.0, tolerance=1e-4)
        scale = _polished(exact, rough, start=start, target=budget.epsilon)
    except PrivacyRefusal:
        # A looser bound may not reach a small budget, or not know the event at all.
        start = 1.0
        scale = None
    if scale is None:
        root = _root(exact, target=budget.epsilon, start=start, factor=2.0, tolerance=1e-6)
        scale = round_up(root, _DIGITS)
    while exact(scale) > budget.epsilon:
        # Rare: the root is found to about one unit of the last digit.
        scale = round_up(scale * (1 + 10.0**-_DIGITS), _DIGITS)
    return Calibration(scale, exact(scale))


def affordable_steps(
    accountant: Accountant,
    planned: DpEvent | Steps,
    *,
    budget: Budget,
    at_most: int | None = None,
    allow_estimate: bool = False,
) -> int:
    """Find the largest number of steps within the budget; 0 if not even one fits.

    Args:
        accountant: What the steps are charged by.
        planned: One event that is repeated, or the steps of a committed schedule in order.
        budget: The target, and the relation it is measured under.
        at_most: A limit on the answer, such as the number of planned steps.
        allow_estimate: Whether an estimate will do, which no run may rest on; else it is refused.
    """
    most = MOST_COUNTED if at_most is None else at_most
    steps: Steps = planned if isinstance(planned, list | tuple) else [(planned, most)]
    most = min(most, total(steps))

    def fits(count: int, by: Accountant = accountant) -> bool:
        return _epsilon(by, first(steps, count), budget, allow_estimate) <= budget.epsilon

    if most == 0 or not fits(1):
        return 0
    if at_most is not None and fits(most):
        return most
    rough = accountant.rough()
    if len(steps) == 1:
        guess = _last(lambda count: fits(count, rough), guess=1, most=most)
    else:
        guess = _guess(accountant, rough, steps, budget=budget, most=most)
    return _last(fits, guess=guess, most=most)


def _guess(
    accountant: Accountant, rough: Accountant, steps: Steps, *, budget: Budget, most: int
) -> int:
    """Guess the last step of a long schedule that fits: roughly, then more closely."""
    near = _around(rough, steps, budget=budget, good=1, bad=most + 1)
    margin = near // 20 + 8  # rounding a schedule coarsely costs a few percent
    low = max(1, near - margin)
    high = min(near + margin, most + 1)
    return _around(accountant, steps, budget=budget, good=low, bad=high)


def _last(fits: Callable[[int], bool], *, guess: int, most: int) -> int:
    """Find the last count that fits, where 1 does.

    The search goes in growing strides from a guess, then by halves.
    """
    good = bad = guess
    stride = 1
    if fits(guess):
        bad = guess + 1
        while bad <= most and fits(bad):
            good = bad
            stride *= 2
            bad = min(good + stride, most + 1)
    else:
        good = max(1, guess - 1)
        while good > 1 and not fits(good):
            bad = good
            stride *= 2
            good = max(1, bad - stride)
    return last_between(good, bad, fits=fits)


def last_between(good: int, bad: int, *, fits: Callable[[int], bool]) -> int:
    """Find the last count that fits, by halves, where `good` does and `bad` doesn't."""
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def _around(accountant: Accountant, steps: Steps, *, budget: Budget, good: int, bad: int) -> int:
    """Guess the last step that fits in a long schedule, many points of its curve at a time."""
    while bad - good > 1:
        at = sorted({good + (bad - good) * i // 16 for i in range(1, 16)} - {good})
        spent = accountant.curve(
            first(steps, at[-1]), at, delta=budget.delta, relation=budget.relation
        )
        for count, epsilon in zip(at, spent, strict=True):
            if epsilon <= budget.epsilon:
                good = max(good, count)
            elif epsilon > budget.epsilon:
                bad = min(bad, count)
    return good


def _epsilon(accountant: Accountant, steps: Steps, budget: Budget, allow_estimate: bool) -> float:
    composed = accountant.compose(steps, relation=budget.relation)
    if not allow_estimate:
        composed = require_certificate(composed)
    return composed.epsilon(budget.delta)


def _costs(
    accountant: Accountant, steps_at: Callable[[float], Steps], budget: Budget, allow_estimate: bool
) -> Callable[[float], float]:
    """Return epsilon as a function of the scale; each scale is evaluated once."""
    return functools.cache(
        lambda scale: _epsilon(accountant, steps_at(scale), budget, allow_estimate)
    )


def _root(
    epsilon: Callable[[float], float],
    *,
    target: float,
    start: float,
    factor: float,
    tolerance: float,
) -> float:
    """Find a scale that costs at most the target and hardly less; epsilon falls with the scale."""
    from scipy.optimize import brentq

    low, high = _bracket(epsilon, target=target, start=start, factor=factor)
    if epsilon(low) <= target:
        return low
    first = math.log(low)
    last = math.log(high)

    def excess(x: float) -> float:
        # The ends are known exactly: epsilon may jump there, and exp(log(high)) may lie below high.
        scale = {first: low, last: high}.get(x) or math.exp(x)
        return _excess(epsilon(scale), target)

    root = math.exp(brentq(excess, first, last, xtol=tolerance))
    return root if epsilon(root) <= target else min(high, root * (1 + 4 * tolerance))


def _bracket(
    epsilon: Callable[[float], float], *, target: float, start: float, factor: float
) -> tuple[float, float]:
    """Find a scale that costs more than the target and one that doesn't.

    The search goes in growing strides from the start.
    """
    low = high = start
    while epsilon(high) > target:
        low = high
        high *= factor
        factor = min(factor**1.5, 8.0)
        if high > _LARGEST:
            raise PrivacyRefusal(
                f"budget.epsilon: expected a budget that some noise can keep, got {target:g}: "
                "even a noise multiplier of "
                f"{low:g} costs more. Raise epsilon or delta, or plan fewer steps."
            )
    while low == high or (epsilon(low) <= target and low > _SMALLEST):
        high = low
        low /= factor
        factor = min(factor**1.5, 8.0)
    return low, high


def _polished(
    exact: Callable[[float], float], rough: Callable[[float], float], *, start: float, target: float
) -> float | None:
    """Go from a rough root to the smallest rounded scale that fits, by secants.

    Each exact cost may take seconds, so only rounded scales are tried, and none twice.
    None where secants lead nowhere.
    """
    power = _excess(rough(start), rough(1.05 * start)) / math.log(1.05)
    scale = round_up(start, _DIGITS)
    seen: dict[float, float] = {}
    while scale not in seen and len(seen) < 8 and power > 0.1:
        seen[scale] = _excess(exact(scale), target)
        if len(seen) > 1:
            (one, had), (other, has) = list(seen.items())[-2:]
            slope = (had - has) / math.log(other / one)
            power = slope if slope > 0.1 else power
        scale = round_up(scale * math.exp(min(max(seen[scale] / power, -1.0), 1.0)), _DIGITS)
    fitting = [tried for tried, excess in seen.items() if excess <= 0]
    return min(fitting) if scale in seen and fitting else None


def _excess(epsilon: float, target: float) -> float:
    return math.log(min(max(epsilon, 1e-12), 1e12) / min(max(target, 1e-12), 1e12))
