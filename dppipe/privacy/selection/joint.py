"""The privacy curve of a run that is one of several, or that touches disjoint sets of records.

Guarantees (`selection/PROOF.md`, lemma 1):
- One of several mechanisms is done, drawn by public weights, and which one is part of the output:
  its delta is the weighted sum of theirs, at every epsilon.
- Each mechanism sees other records: delta is the largest of theirs (McSherry 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import PrivacyCurve

_UPWARD = 1 + 2.0**-48
_ROUNDS = 100


@dataclass(frozen=True)
class WeightedSum:
    """The curve of one of several mechanisms, drawn by public weights."""

    curves: Sequence[PrivacyCurve]
    weights: Sequence[float]
    """They are drawn in proportion to these, which add up to 1 but for round-off."""

    def delta(self, epsilon: float) -> float:
        """Return the weighted sum of the deltas."""
        parts: list[float] = []
        for curve, weight in zip(self.curves, self.weights, strict=True):
            parts.append(weight * curve.delta(epsilon))
        return min(1.0, math.fsum(parts) / math.fsum(self.weights) * _UPWARD)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon whose delta is at most this: never above the largest of theirs."""
        most = max(curve.epsilon(delta) for curve in self.curves)
        return _least(self.delta, delta, most=most)

    def parameters(self) -> dict[str, Any]:
        """Return what the curves were computed from."""
        return {"one_of": [curve.parameters() for curve in self.curves]}


@dataclass(frozen=True)
class LargestOf:
    """The curve of several mechanisms, each of which sees other records."""

    curves: Sequence[PrivacyCurve]

    def delta(self, epsilon: float) -> float:
        """Return the largest delta at this epsilon."""
        return max(curve.delta(epsilon) for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        """Return the largest epsilon at this delta."""
        return max(curve.epsilon(delta) for curve in self.curves)

    def parameters(self) -> dict[str, Any]:
        """Return what the curves were computed from."""
        return {"disjoint": [curve.parameters() for curve in self.curves]}


def _least(delta_at: Callable[[float], float], delta: float, *, most: float) -> float:
    """Find the least epsilon whose delta is at most this by bisection; `most` is returned if none.

    Weights may be off by round-off, so that even `most` may have a larger delta by that much: it
    bounds the sum all the same, since each mechanism's own delta is at most the asked one there.
    """
    if not math.isfinite(most):
        return most
    low = 0.0
    high = most
    if delta_at(low) <= delta:
        return low
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if delta_at(middle) <= delta:
            high = middle
        else:
            low = middle
    return high
