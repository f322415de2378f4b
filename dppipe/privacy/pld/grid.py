"""Privacy losses on a grid, in one direction of neighbouring data sets, and the privacy curve that they have.

A loss of x has delta 1 - e^(epsilon - x) at epsilons below it: between places of the grid, delta is a straight line in e^epsilon.
The loss at a place is the place times the interval, exactly.

Guarantee: delta and epsilon are never below those of the probabilities as they stand. All that is added up is positive, and an
epsilon's distance to the grid is exact: so round-off stays relative to the result. It is below 60 units of 2^-53 (pairwise sums
of up to 2^21 terms: 33; what is added up: 9), and `_UPWARD` is 128.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UPWARD = 1 + 2.0**-46
_LATER = 1 + 2.0**-49
"""Sixteen units: the part of an interval that is read off a chord is right to nine, its sum with the place before it to two."""


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
        """The probability of a finite loss, or a little more; above 1 where probabilities were rounded up."""
        return float(np.sum(self.probabilities)) * _UPWARD

    @property
    def variance(self) -> float:
        """The variance of the finite losses, in squared intervals."""
        places = np.arange(len(self.probabilities))
        mean = float(np.dot(places, self.probabilities))
        return float(np.dot((places - mean) ** 2, self.probabilities))

    def delta(self, epsilon: float, *, interval: float) -> float:
        """Give the delta at an epsilon."""
        place = math.floor(Fraction(epsilon) / Fraction(interval)) + 1
        return self._delta_at(
            place, interval, below=float(place * Fraction(interval) - Fraction(epsilon))
        )

    def epsilon(self, delta: float, *, interval: float) -> float:
        """Give the least epsilon >= 0 whose delta is at most this; infinite if there is none."""
        if self._delta_at(0, interval) <= delta:
            return 0.0
        places = range(1, self.lowest + len(self.probabilities))
        place = 1 + bisect.bisect_left(
            places, True, key=lambda place: self._delta_at(place, interval) <= delta
        )
        low, high = (self._delta_at(at, interval) for at in (place - 1, place))
        if high > delta:
            return math.inf
        return (
            (place - 1) * interval + math.log1p((low - delta) / (low - high) * math.expm1(interval))
        ) * _LATER

    def _delta_at(self, place: int, interval: float, *, below: float = 0.0) -> float:
        """Give the delta at a place of the grid, or so much below it: the mean of 1 - e^-gap over the losses from there on."""
        first = max(0, place - self.lowest)
        gaps = (
            interval
            * np.arange(self.lowest + first - place, self.lowest + len(self.probabilities) - place)
            + below
        )
        return (
            self.infinite + float(np.sum(-np.expm1(-gaps) * self.probabilities[first:]))
        ) * _UPWARD


Stage = Mapping[Way, int]
"""Distributions, and how many independent losses of each are added."""
