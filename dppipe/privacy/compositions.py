"""The textbook composition theorems for (epsilon, delta) mechanisms: basic, advanced, optimal.

Each gives a certified epsilon. Advanced is the heterogeneous form of Dwork, Rothblum and Vadhan's theorem with the second
term that is often dropped: k epsilon (e^epsilon - 1)/(e^epsilon + 1), the mean of the privacy loss, which is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from dppipe.privacy.losses import Losses

Epsilons = Sequence[tuple[float, int]]
"""The epsilon of single mechanisms, and how many times each is used."""


def basic_epsilon(epsilons: Epsilons) -> float:
    """Add up epsilons; the deltas add up too (Dwork et al. 2006)."""
    return math.fsum(count * epsilon for epsilon, count in epsilons)


def advanced_epsilon(epsilons: Epsilons, *, slack: float) -> float:
    """Compose at the price of `slack` on top of the sum of deltas (Dwork, Rothblum and Vadhan 2010; Kairouz et al. 2015)."""
    squares = math.fsum(count * epsilon**2 for epsilon, count in epsilons)
    mean = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in epsilons)
    return math.sqrt(2 * math.log(1 / slack) * squares) + mean


def optimal_epsilon(epsilon: float, *, delta: float, count: int, total_delta: float) -> float:
    """Compose equal (epsilon, delta) mechanisms as tightly as can be (Kairouz, Oh and Viswanath 2015, theorem 3.3).

    The worst mechanism gives the loss +epsilon or -epsilon, and all with probability delta: the sum is binomial.
    """
    if count == 0 or epsilon == 0:
        return 0.0 if -math.expm1(count * math.log1p(-delta)) <= total_delta else math.inf
    if not math.isfinite(epsilon):
        return math.inf
    finite = math.exp(count * math.log1p(-delta))
    above = stats.binom(count, 1 / (1 + math.exp(-epsilon)))  # how many of the losses are +epsilon
    reach = 40 * above.std() + 40
    low, high = max(0, math.floor(above.mean() - reach)), min(count, math.ceil(above.mean() + reach))
    masses = np.zeros(2 * (high - low) + 1)
    masses[::2] = finite * above.pmf(np.arange(low, high + 1))
    masses[0] += finite * above.cdf(low - 1)  # next to nothing lies outside; what does, counts as more than it is
    infinite = -math.expm1(count * math.log1p(-delta)) + finite * above.sf(high)
    return Losses(epsilon, 2 * low - count, masses, infinite).epsilon(total_delta)
