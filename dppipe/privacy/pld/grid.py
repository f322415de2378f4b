"""Privacy losses on a grid, in one direction of neighbouring datasets, and their privacy curve.

The loss at a place of the grid is the place times the interval, exactly.

Guarantees (`PROOF.md`, lemma 12):
- delta and epsilon are never below those of the probabilities as they are stored;
- round-off is relative to the result, and `_UPWARD` covers it.
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
"""128 units of 2^-53; a sum of up to 2^21 terms is off by less than 60."""
_LATER = 1 + 2.0**-49
"""Sixteen units: the part of an interval that is read off a chord is right to nine, its sum with
the place before it to two."""


@dataclass(frozen=True, eq=False)
class LossPmf:
    """The probability mass function of privacy losses, in one direction of neighbouring datasets.

    Finite losses lie on the grid; infinite loss has a probability of its own.
    """

    lowest: int
    """The least loss, in intervals of the grid."""
    probabilities: NDArray[np.float64]
    infinite: float
    """The probability of infinite loss."""

    @functools.cached_property
    def mass(self) -> float:
        """An upper bound on the probability of a finite loss; above 1 after rounding up."""
        return float(np.sum(self.probabilities)) * _UPWARD

    @property
    def variance(self) -> float:
        """The variance of the finite losses, in squared intervals."""
        places = np.arange(len(self.probabilities))
        mean = float(np.dot(places, self.probabilities))
        return float(np.dot((places - mean) ** 2, self.probabilities))

    def delta(self, epsilon: float, *, interval: float) -> float:
        """Return the delta at an epsilon."""
        place = math.floor(Fraction(epsilon) / Fraction(interval)) + 1
        below = float(place * Fraction(interval) - Fraction(epsilon))
        return self._delta_at(place, interval, below=below)

    def epsilon(self, delta: float, *, interval: float) -> float:
        """Return the least epsilon >= 0 whose delta is at most this; infinite if there is none."""
        if self._delta_at(0, interval) <= delta:
            return 0.0
        places = range(1, self.lowest + len(self.probabilities))
        place = 1 + bisect.bisect_left(
            places, True, key=lambda place: self._delta_at(place, interval) <= delta
        )
        low = self._delta_at(place - 1, interval)
        high = self._delta_at(place, interval)
        if high > delta:
            return math.inf
        # Between two places delta is a straight line in e^epsilon.
        part = math.log1p((low - delta) / (low - high) * math.expm1(interval))
        return ((place - 1) * interval + part) * _LATER

    def _delta_at(self, place: int, interval: float, *, below: float = 0.0) -> float:
        """Return the delta at a place of the grid, or `below` less than that place.

        It is the mean of 1 - e^-gap over the losses at or above the place.
        """
        first = max(0, place - self.lowest)
        start = self.lowest + first - place
        stop = self.lowest + len(self.probabilities) - place
        gaps = interval * np.arange(start, stop) + below
        finite = float(np.sum(-np.expm1(-gaps) * self.probabilities[first:]))
        return (self.infinite + finite) * _UPWARD


Stage = Mapping[LossPmf, int]
"""Distributions, and how many independent losses of each are added."""
