"""Privacy losses on a grid, in one direction of neighbouring data sets, and the privacy curve that they have.

A loss of x has delta 1 - e^(epsilon - x) at epsilons below it: between places of the grid, delta is a straight line in e^epsilon.

Guarantee: delta is never below that of the probabilities as they stand. All that is added up is positive, so that round-off
stays relative to the result, far below `_UPWARD`.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UPWARD = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Way:
    """The losses of an event in one direction of neighbouring data sets: finite ones on the grid, and infinite loss."""

    lowest: int
    """The least loss, in intervals of the grid."""
    probabilities: NDArray[np.float64]
    infinite: float
    """The probability of infinite loss."""

    @functools.cached_property
    def mass(self) -> float:
        """The probability of a finite loss, or a little more where probabilities were rounded up."""
        return float(np.sum(self.probabilities))

    @property
    def variance(self) -> float:
        """The variance of the finite losses, in squared intervals."""
        places = np.arange(len(self.probabilities))
        mean = float(np.dot(places, self.probabilities))
        return float(np.dot((places - mean) ** 2, self.probabilities))

    def delta(self, epsilon: float, *, interval: float) -> float:
        """Give the delta at an epsilon."""
        place = math.floor(epsilon / interval)
        low, high = (self._delta_at(at, interval) for at in (place, place + 1))
        part = min(max(math.expm1(epsilon - place * interval) / math.expm1(interval), 0.0), 1.0)
        return (1 - part) * low + part * high

    def epsilon(self, delta: float, *, interval: float) -> float:
        """Give the least epsilon >= 0 whose delta is at most this; infinite if there is none."""
        if self._delta_at(0, interval) <= delta:
            return 0.0
        places = range(1, self.lowest + len(self.probabilities))
        place = 1 + bisect.bisect_left(places, True, key=lambda place: self._delta_at(place, interval) <= delta)
        low, high = (self._delta_at(at, interval) for at in (place - 1, place))
        if high > delta:
            return math.inf
        return (place - 1) * interval + math.log1p((low - delta) / (low - high) * math.expm1(interval))

    def _delta_at(self, place: int, interval: float) -> float:
        """Give the delta at a place of the grid: the mean of 1 - e^(epsilon - loss) over the losses above it."""
        first = max(0, place + 1 - self.lowest)
        above = np.arange(self.lowest + first - place, self.lowest + len(self.probabilities) - place)
        parts = -np.expm1(-interval * above) * self.probabilities[first:]
        return (self.infinite + float(np.sum(parts))) * _UPWARD


Stage = Mapping[Way, int]
"""Distributions, and how many independent losses of each are added."""
