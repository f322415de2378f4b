"""From counts to bounds: exact binomial confidence bounds, and the test of a claim by two worlds.

In world 0 one unit contributes nothing; in world 1 it does. A threshold, fixed before anything is
drawn, decides "world 1" on some draws of each. The two rates bound epsilon from below, with
confidence, and contradict a claim whose blow-up they exceed (`privacy/tradeoff/blow_up.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import special

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Claim = Callable[[ArrayLike], NDArray[np.float64]]


def lower_bound(hits: int, draws: int, *, error: float) -> float:
    """Return the one-sided Clopper-Pearson lower bound on a probability."""
    if hits == 0:
        return 0.0
    return float(special.betaincinv(hits, draws - hits + 1, error))


def upper_bound(hits: int, draws: int, *, error: float) -> float:
    """Return the one-sided Clopper-Pearson upper bound on a probability."""
    if hits == draws:
        return 1.0
    return float(special.betaincinv(hits + 1, draws - hits, 1 - error))


@dataclass(frozen=True)
class TwoWorlds:
    """How often a threshold that was fixed beforehand said "world 1" in each of two worlds."""

    hits_with: int
    """True positives, of `draws_with`."""
    draws_with: int
    hits_without: int
    """False positives, of `draws_without`."""
    draws_without: int

    def bounds(self, *, error: float) -> tuple[float, float]:
        """Return a lower bound on the true- and an upper one on the false-positive rate.

        Guarantee: both hold together with probability 1 - error at least, if the draws of each
        world are independent.
        """
        true_positives = lower_bound(self.hits_with, self.draws_with, error=error / 2)
        false_positives = upper_bound(self.hits_without, self.draws_without, error=error / 2)
        return true_positives, false_positives

    def epsilon(self, *, delta: float, error: float) -> float:
        """Return an epsilon that the mechanism exceeds with confidence 1 - error, or 0.

        It is the larger one of the two directions; both follow from the same two bounds.
        """
        true_positives, false_positives = self.bounds(error=error)
        forwards = _log_ratio(true_positives - delta, false_positives)
        backwards = _log_ratio(1 - false_positives - delta, 1 - true_positives)
        return max(0.0, forwards, backwards)

    def contradicts(self, claim: Claim, *, error: float) -> bool:
        """Return whether the rates contradict a blow-up, in either direction, at this level."""
        true_positives, false_positives = self.bounds(error=error)
        forwards = true_positives > float(claim(false_positives))
        backwards = 1 - false_positives > float(claim(1 - true_positives))
        return forwards or backwards


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return -math.inf
    return math.log(above / below) if below > 0 else math.inf
