"""A privacy curve that is read at a few deltas only, because reading it costs much.

Curves of textbook theorems search for a delta by hundreds of evaluations. Here their epsilon is
asked for at some deltas once; between these points the curve is what the points imply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dppipe.privacy.rdp.concentrated import ConcentratedCurve, TruncatedCurve
from dppipe.privacy.textbook.curve import TextbookCurve
from dppipe.privacy.tradeoff.one_point import OnePoint

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import PrivacyCurve

_SLOW = (ConcentratedCurve, TextbookCurve, TruncatedCurve)
_PARTS = ("curve", "own", "other")
"""The names under which a curve holds the curves that it is made of."""
_POINTS = 24
_SMALLEST = 1e-9
_LARGEST = 0.3


@dataclass(frozen=True)
class FewPoints:
    """The curve that some points of another one imply.

    Guarantee: it bounds what the other curve bounds: each point alone is a claim (`OnePoint`).
    """

    points: tuple[OnePoint, ...]

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that a point implies at this delta."""
        return min((point.epsilon(delta) for point in self.points), default=math.inf)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that a point implies at this epsilon."""
        return min((point.delta(epsilon) for point in self.points), default=1.0)

    def parameters(self) -> dict[str, Any]:
        """Return the points."""
        return {"points": [point.parameters() for point in self.points]}


def cheap_curve(curve: PrivacyCurve, *, delta: float) -> PrivacyCurve:
    """Return a curve itself if reading it is cheap; else what a few points of it imply.

    Args:
        curve: The curve.
        delta: The delta of the claim, which is one of the points.
    """
    if not _is_slow(curve):
        return curve
    deltas = {delta, *np.geomspace(_SMALLEST, _LARGEST, _POINTS).tolist()}
    points = []
    for each in sorted(deltas):
        epsilon = curve.epsilon(each)
        if math.isfinite(epsilon):
            points.append(OnePoint(max(0.0, epsilon), each))
    return FewPoints(tuple(points))


def _is_slow(curve: object) -> bool:
    """Return whether reading a curve, or a part of it, costs much."""
    parts = [getattr(curve, name) for name in _PARTS if hasattr(curve, name)]
    return isinstance(curve, _SLOW) or any(_is_slow(part) for part in parts)
