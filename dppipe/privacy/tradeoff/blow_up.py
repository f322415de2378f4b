"""How probable an event can become when one unit changes: the blow-up of a privacy curve.

An event that has probability x in one world has at most B(x) in the neighbouring one. With delta()
the curve of the worse direction,

    B(x) = min over e >= 0 of  e^e x + delta(e)  and  1 - e^-e (1 - x - delta(e)),  at most 1.

1 - B is the trade-off function of Dong, Roth and Su (2022). B holds for every attack on one unit:
its true-positive rate is at most B(its false-positive rate). Read next: `attack_limits.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dppipe.privacy.accountants.base import PrivacyCurve

_POINTS = 800
"""At how many values of epsilon a curve is read. Fewer lines make B larger, never smaller."""
_SMALLEST_DELTAS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Epsilon is read up to that of the first of these deltas for which it is finite."""
_MOST_EPSILON = 100.0
"""Epsilon is read up to this at most: beyond it e^-e is lost beside 1."""
_UPWARD = 1 + 2.0**-48
"""More than the rounding of one line's product, sum and difference."""


@dataclass(frozen=True)
class BlowUp:
    """The lower envelope of straight lines `slope * x + intercept`, and 1.

    Guarantee: where the curve's delta is an upper bound, `B(x)` is one on the probability of any
    event whose probability in the neighbouring world is x, in both directions, round-off included.
    """

    slopes: NDArray[np.float64]  # [lines]
    intercepts: NDArray[np.float64]  # [lines]

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the largest probability in one world of what has probability x in the other."""
        places = np.asarray(x, dtype=np.float64)
        lines = self.slopes * places[..., None] + self.intercepts
        return np.asarray(np.minimum(lines.min(axis=-1) * _UPWARD, 1.0))

    def inverse(self, y: ArrayLike) -> NDArray[np.float64]:
        """Return the smallest probability in one world of what has probability y in the other."""
        heights = np.asarray(y, dtype=np.float64)
        lines = (heights[..., None] / _UPWARD - self.intercepts) / self.slopes
        return np.asarray(np.clip(lines.max(axis=-1) / _UPWARD, 0.0, 1.0))

    def corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the corners of the polygon from x = 0 to x = 1: their x, and B there."""
        pieces = self.pieces()
        places = np.append(pieces.starts, 1.0)
        return places, self(places)

    def pieces(self) -> Pieces:
        """Return the straight pieces of the polygon, from x = 0 to x = 1."""
        slopes, intercepts = _lower_envelope(self.slopes, self.intercepts)
        crossings = np.diff(intercepts) / -np.diff(slopes)
        ends = np.concatenate([[0.0], np.clip(crossings, 0.0, 1.0), [1.0]])
        ends = np.maximum.accumulate(ends)
        return Pieces(ends[:-1], ends[1:], slopes, intercepts)


@dataclass(frozen=True)
class Pieces:
    """The straight pieces of a blow-up: they cover [0, 1], each with the line that is lowest there.

    Guarantee: a piece's line bounds B everywhere, also where round-off has moved its ends.
    """

    starts: NDArray[np.float64]  # [pieces]
    stops: NDArray[np.float64]  # [pieces]
    slopes: NDArray[np.float64]  # [pieces]
    intercepts: NDArray[np.float64]  # [pieces]

    def at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each piece's own line at a place of its own, rounded up; it may exceed 1."""
        return np.asarray((self.slopes * places + self.intercepts) * _UPWARD)


def blow_up_of(curve: PrivacyCurve, *, points: int = _POINTS) -> BlowUp:
    """Return the blow-up of a privacy curve, from its delta at many values of epsilon.

    Example:
        >>> from dppipe.privacy.gaussian import GaussianCurve
        >>> from dppipe.privacy.tradeoff.blow_up import blow_up_of
        >>> round(float(blow_up_of(GaussianCurve(mu=1.0))(0.01)), 4)
        0.0924
    """
    epsilons = np.linspace(0.0, largest_epsilon(curve), points)
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    return blow_up_through(epsilons, deltas)


def blow_up_through(epsilons: NDArray[np.float64], deltas: NDArray[np.float64]) -> BlowUp:
    """Return the blow-up of a privacy curve that is known at some epsilons >= 0."""
    shrinkage = np.exp(-epsilons)
    slopes = np.concatenate([np.exp(epsilons), shrinkage])
    # 1 - e^-e (1 - delta), as a sum of positive terms: small ones keep their digits.
    intercepts = np.concatenate([deltas, -np.expm1(-epsilons) + shrinkage * deltas])
    return BlowUp(slopes, intercepts)


def largest_epsilon(curve: PrivacyCurve) -> float:
    """Return the epsilon up to which a curve is worth reading: a finite one, at a tiny delta."""
    for delta in _SMALLEST_DELTAS:
        epsilon = curve.epsilon(delta)
        if math.isfinite(epsilon):
            return min(epsilon, _MOST_EPSILON)
    return _MOST_EPSILON


def _lower_envelope(
    slopes: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lines that are lowest somewhere in [0, 1], the steepest first, and y = 1 last."""
    all_slopes = np.append(slopes, 0.0)
    all_intercepts = np.append(intercepts, 1.0)
    order = np.lexsort((all_intercepts, -all_slopes))
    kept: list[tuple[float, float]] = []
    for place in order:
        line = float(all_slopes[place]), float(all_intercepts[place])
        if kept and line[0] == kept[-1][0]:
            continue  # parallel, and not below
        while kept and not _is_needed(kept, line):
            kept.pop()
        kept.append(line)
    found = np.array(kept)
    return found[:, 0], found[:, 1]


def _is_needed(kept: list[tuple[float, float]], line: tuple[float, float]) -> bool:
    """Whether the last line kept is lowest somewhere between its neighbours."""
    slope, intercept = kept[-1]
    leaves = (line[1] - intercept) / (slope - line[0])  # where the flatter line takes over
    if leaves <= 0:
        return False
    if len(kept) == 1:
        return True
    before_slope, before_intercept = kept[-2]
    enters = (intercept - before_intercept) / (before_slope - slope)
    return enters < leaves
