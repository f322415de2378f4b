"""The textbook composition theorems for (epsilon, delta) mechanisms: basic, advanced, optimal.

Each gives a certified epsilon. Advanced is the heterogeneous form of Dwork, Rothblum and Vadhan's theorem with the second
term that is often dropped: k epsilon (e^epsilon - 1)/(e^epsilon + 1), the mean of the privacy loss, which is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dppipe.privacy.pld.convolution import convolved
from dppipe.privacy.pld.curves import LossCurve
from dppipe.privacy.pld.distributions import LARGEST_LOSS, Losses
from dppipe.privacy.pld.grid import Way

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

    The worst mechanism gives the loss +epsilon or -epsilon, and all with probability delta; it is composed on the
    grid of whole epsilons, where nothing has to be rounded.
    """
    exposed = -math.expm1(count * math.log1p(-delta)) * (
        1 + 2.0**-48
    )  # a difference with it is taken below
    if exposed > total_delta or epsilon > LARGEST_LOSS:
        return math.inf
    if count == 0 or epsilon == 0:
        return 0.0
    likely = 1 / (1 + math.exp(-epsilon))
    worst = Way(-1, np.array([math.exp(-epsilon) * likely, 0.0, likely]) * (1 + 2.0**-48), 0.0)
    (composed,) = convolved([{worst: count}])
    return LossCurve(
        Losses((composed,), epsilon), exposed=exposed, interval=epsilon, rounding=0.0
    ).epsilon(total_delta)
