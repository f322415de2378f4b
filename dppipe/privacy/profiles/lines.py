"""The delta of a privacy loss that is at most the largest of several lines in a normal variable.

The loss of logistic objective perturbation is the largest value over 0 <= a <= 1 of
`ln(1 + a (1-a) k) + a^2 s^2/2 + a s Z`, Z a normal variable. Finitely many lines in Z lie above
it, and for them delta is a sum of normal probabilities: no quadrature has to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CELLS = 2000
_RAISED = 2.0**-46
"""On each line, relative to the numbers that it is made of."""
_SLACK = 2.0**-36
"""Relative, on both sums that delta is the difference of: 2000 terms, each off by a few units."""


def perturbed_lines(
    s: float, leverage: float, cells: int = _CELLS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return heights and slopes of lines above the loss (`OBJECTIVE.md`, lemma 8).

    In each cell of values of a, the concave logarithm lies below its tangent and the convex square
    below its chord; so the loss is largest at an end of the cell, at most.
    """
    # Cells are narrow at both ends, where the logarithm bends most if k is large.
    ends = (1 - np.cos(np.linspace(0, np.pi, cells + 1))) / 2
    ends[0] = 0.0
    ends[-1] = 1.0
    middle = (ends[:-1] + ends[1:]) / 2
    inside = 1 + middle * (1 - middle) * leverage
    tangent = (1 - 2 * middle) * leverage / inside
    log = np.log(inside)
    heights = np.full(cells + 1, -np.inf)
    heights[:-1] = log + tangent * (ends[:-1] - middle)
    heights[1:] = np.maximum(heights[1:], log + tangent * (ends[1:] - middle))
    heights += ends**2 * s**2 / 2
    # A slope is off by one unit at most, which moves its line by less than this for |Z| < 40.
    raised = _RAISED * (1 + leverage + s + s**2)
    return np.maximum(heights, 0.0) + raised, ends * s


@dataclass(frozen=True, eq=False)
class LargestLine:
    """The largest of several lines c + m Z, as those that are largest somewhere.

    Guarantee: `delta` is never below E (1 - e^(epsilon - loss))_+ of the lines it was made of
    (`OBJECTIVE.md`, lemmas 8 and 9).
    """

    heights: NDArray[np.float64]
    slopes: NDArray[np.float64]
    """In ascending order."""
    starts: NDArray[np.float64]
    """Where each line becomes the largest; the first one is from minus infinity on."""
    lower: NDArray[np.float64]
    """The mean of e^-loss from each start on, and 0 at the end."""

    @classmethod
    def of(cls, heights: NDArray[np.float64], slopes: NDArray[np.float64]) -> LargestLine:
        """Return the lines that are largest somewhere; slopes are ascending and differ."""
        kept = _hull(slopes.tolist(), heights.tolist())
        c = heights[kept]
        m = slopes[kept]
        starts = np.append(-np.inf, -np.diff(c) / np.diff(m))
        ends = np.append(starts[1:], np.inf)
        parts = np.exp(m**2 / 2 - c) * _between(starts + m, ends + m)
        lower = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
        return cls(c, m, starts, lower)

    def delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the delta at each epsilon."""
        with np.errstate(divide="ignore", invalid="ignore"):
            at_starts = self.heights + self.slopes * self.starts
        at_starts[0] = self.heights[0] if self.slopes[0] == 0 else -np.inf
        at_starts = np.maximum.accumulate(at_starts)
        line = np.maximum(np.searchsorted(at_starts, epsilon, side="right") - 1, 0)
        c = self.heights[line]
        m = self.slopes[line]
        ends = np.append(self.starts[1:], np.inf)[line]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = np.where(m > 0, (epsilon - c) / m, np.where(epsilon < c, -np.inf, ends))
        crossing = np.clip(crossing, self.starts[line], ends)
        upper = special.ndtr(-crossing)
        first = np.exp(m**2 / 2 - c) * _between(crossing + m, ends + m)
        lower = np.exp(np.minimum(epsilon, 700.0)) * (first + self.lower[line + 1])
        return np.asarray(np.clip(upper - lower + _SLACK * (upper + lower), 0.0, 1.0))


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return normal probabilities of intervals, from the tail that keeps more digits."""
    right = special.ndtr(-low) - special.ndtr(-high)
    left = special.ndtr(high) - special.ndtr(low)
    return np.asarray(np.where(low > 0, right, left))


def _hull(slopes: list[float], heights: list[float]) -> list[int]:
    """Return which points (slope, height) lie on the upper hull: their lines are largest once."""
    kept: list[int] = []
    for i, (slope, height) in enumerate(zip(slopes, heights, strict=True)):
        while len(kept) >= 2:
            a, b = kept[-2:]
            rise = (height - heights[a]) * (slopes[b] - slopes[a])
            if rise < (heights[b] - heights[a]) * (slope - slopes[a]):
                break
            kept.pop()
        kept.append(i)
    return kept
