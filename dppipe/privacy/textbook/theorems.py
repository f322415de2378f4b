"""The textbook composition theorems for (epsilon, delta) mechanisms: basic, advanced, optimal.

Each gives a certified epsilon. Advanced is the heterogeneous form of Dwork, Rothblum and Vadhan's
theorem with the second term that is often dropped: k epsilon (e^epsilon - 1)/(e^epsilon + 1), the
mean of the privacy loss, which is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dppipe.privacy.pld import compose_equal

Epsilons = Sequence[tuple[float, int]]
"""The epsilon of single mechanisms, and how many times each is used."""


def basic_epsilon(epsilons: Epsilons) -> float:
    """Add up epsilons; the deltas add up too (Dwork et al. 2006)."""
    return math.fsum(count * epsilon for epsilon, count in epsilons)


def advanced_epsilon(epsilons: Epsilons, *, slack: float) -> float:
    """Compose at the price of `slack` on top of the sum of deltas.

    See Dwork, Rothblum and Vadhan (2010) and Kairouz et al. (2015).
    """
    squares = math.fsum(count * epsilon**2 for epsilon, count in epsilons)
    mean = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in epsilons)
    return math.sqrt(2 * math.log(1 / slack) * squares) + mean


def optimal_epsilon(epsilon: float, *, delta: float, count: int, total_delta: float) -> float:
    """Compose equal (epsilon, delta) mechanisms optimally.

    This is theorem 3.3 of Kairouz, Oh and Viswanath (2015).
    """
    return compose_equal(epsilon, delta=delta, count=count).epsilon(total_delta)
