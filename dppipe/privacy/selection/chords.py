"""A privacy profile from finitely many of its points: straight lines in e^epsilon between them.

Guarantee: every true profile is convex in e^epsilon, and 1 where that is 0. So a chord between two
points that lie at or above the profile does so too, and so does any subset of the points
(`PROOF.md`, lemma 2). Beyond the last point delta is that of the last point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.accountants.base import PrivacyCurve
    from dppipe.privacy.profiles.sampling import Direction

_POINTS = 500
"""At how many values of epsilon a curve is read."""
_SMALLEST_DELTAS = tuple(10.0**-power for power in range(14, 1, -1))
"""Epsilon is read up to that of the first of these deltas for which it is finite."""
_MOST_EPSILON = 300.0
_UNPROTECTED = 0.5
_UPWARD = 1 + 2.0**-46
"""128 units of round-off, where about twenty are needed."""


@dataclass(frozen=True, eq=False)
class Chords:
    """An upper bound on a profile, for epsilon >= 0."""

    epsilons: NDArray[np.float64]  # [points], ascending
    deltas: NDArray[np.float64]  # [points], each at least the profile there

    def __call__(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the delta at each epsilon."""
        asked = np.asarray(epsilon, dtype=np.float64)
        place = np.searchsorted(self.epsilons, asked, side="right")
        inner = np.clip(place, 1, len(self.epsilons) - 1)
        found = self._between(asked, inner)
        # Before the first point: the chord from delta 1 at e^epsilon = 0.
        ahead = np.minimum(asked - self.epsilons[0], 0.0)
        found = np.where(place == 0, -np.expm1(ahead) + np.exp(ahead) * self.deltas[0], found)
        found = np.where(place == len(self.epsilons), self.deltas[-1], found)
        return np.asarray(np.minimum(found * _UPWARD, 1.0))

    def _between(self, asked: NDArray[np.float64], place: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the chord that ends at the point `place`; both weights keep their digits."""
        if len(self.epsilons) == 1:
            return np.full(asked.shape, self.deltas[0])
        left = self.epsilons[place - 1]
        right = self.epsilons[place]
        inside = np.clip(asked, left, right)
        width = np.expm1(right - left)
        near_right = np.expm1(inside - left) / width
        near_left = np.exp(inside - left) * np.expm1(right - inside) / width
        return np.asarray(near_left * self.deltas[place - 1] + near_right * self.deltas[place])

    def epsilon(self, delta: float) -> float:
        """Return an epsilon >= 0 whose delta is at most this; infinite if there is none."""
        if self.deltas[-1] * _UPWARD > delta:
            return np.inf
        low = 0.0
        high = float(self.epsilons[-1])
        if self.at(low) <= delta:
            return low
        while True:
            middle = (low + high) / 2
            if not low < middle < high:
                return high
            if self.at(middle) <= delta:
                high = middle
            else:
                low = middle

    def at(self, epsilon: float) -> float:
        """Return the delta at one epsilon."""
        return float(self(np.array([epsilon]))[0])

    def directions(self) -> tuple[Direction]:
        """Return the profile of both directions, which are bounded alike."""
        from dppipe.privacy.profiles.sampling import mirrored

        return mirrored(self, float(self.epsilons[-1]))

    def reach(self) -> float:
        """Return the largest loss that is known by a chord, the rest counts as infinite.

        It is infinite where most of the probability lies beyond: nothing is protected then.
        """
        return float(self.epsilons[-1]) if self.deltas[-1] < _UNPROTECTED else np.inf

    def hull(self) -> Chords:
        """Return the chords of the points on the lower convex hull, with (0, 1) before them."""
        places = np.exp(self.epsilons - self.epsilons[-1])
        kept: list[tuple[float, float, int]] = [(0.0, 1.0, -1)]
        for number in range(len(places)):
            point = (float(places[number]), float(self.deltas[number]), number)
            while len(kept) > 1 and not _turns_up(kept[-2], kept[-1], point):
                kept.pop()
            kept.append(point)
        numbers = [number for _, _, number in kept[1:]]
        return Chords(self.epsilons[numbers], self.deltas[numbers])


def read_chords(curve: PrivacyCurve, *, points: int = _POINTS) -> Chords:
    """Return the chords of a privacy curve, from its delta at many values of epsilon."""
    return sampled_chords(curve.delta, most=largest_epsilon(curve), points=points)


def sampled_chords(
    delta: Callable[[float], float], *, most: float, points: int = _POINTS
) -> Chords:
    """Return the chords of a delta that is known as a function, from epsilon 0 to `most`."""
    epsilons = np.linspace(0.0, max(most, 1e-9), points)
    deltas = np.array([delta(float(epsilon)) for epsilon in epsilons])
    return Chords(epsilons, np.maximum.accumulate(deltas[::-1])[::-1])


def largest_epsilon(curve: PrivacyCurve) -> float:
    """Return the epsilon up to which a curve is read: that of a very small delta."""
    for delta in _SMALLEST_DELTAS:
        epsilon = curve.epsilon(delta)
        if np.isfinite(epsilon):
            return min(epsilon, _MOST_EPSILON)
    return _MOST_EPSILON


def _turns_up(
    first: tuple[float, float, int],
    second: tuple[float, float, int],
    third: tuple[float, float, int],
) -> bool:
    """Whether three points, from left to right, lie on a curve that bends upwards."""
    rise = (second[1] - first[1]) * (third[0] - second[0])
    return rise < (third[1] - second[1]) * (second[0] - first[0])
