"""Renyi divergences of the best of a random number of runs (Papernot and Steinke 2022).

One run has the divergence rho(a) at order a. The number of runs K is drawn in secret from a
truncated negative binomial distribution of shape h, or from a Poisson distribution; only the best
run is released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.selection.repetitions import Repetitions


def selection_divergences(
    orders: NDArray[np.float64], one: NDArray[np.float64], *, repetitions: Repetitions
) -> NDArray[np.float64]:
    """Return the divergences for K of a truncated negative binomial distribution (theorem 2).

    At order a it is rho(a) + ln E[K]/(a-1) + (1+h) min_b ((1 - 1/b) rho(b) + ln(1/gamma)/b), and no
    divergence exceeds that at a higher order.

    Args:
        orders: Ascending; each of them is tried as b.
        one: The divergences of one run at these orders.
        repetitions: How K is distributed, with its shape h and its gamma.
    """
    least = float(np.min((1 - 1 / orders) * one + repetitions.log_inverse_gamma / orders))
    found = one + math.log(repetitions.expected) / (orders - 1) + (1 + repetitions.shape) * least
    return np.asarray(np.minimum.accumulate(found[::-1])[::-1])


def poisson_selection_divergences(
    orders: NDArray[np.float64],
    one: NDArray[np.float64],
    *,
    mean: float,
    delta: Callable[[float], float],
) -> NDArray[np.float64]:
    """Return the divergences for K of a Poisson distribution (theorem 6).

    At order a it is rho(a) + E[K] delta(ln(1 + 1/(a-1))) + ln E[K]/(a-1).

    Args:
        orders: Ascending.
        one: The divergences of one run at these orders.
        mean: E[K], at least 1.
        delta: A bound on one run's delta at an epsilon.
    """
    deltas = np.array([delta(math.log1p(1 / (order - 1))) for order in orders])
    found = one + mean * deltas + math.log(mean) / (orders - 1)
    return np.asarray(np.minimum.accumulate(found[::-1])[::-1])
