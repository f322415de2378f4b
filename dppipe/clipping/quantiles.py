"""A threshold that follows a quantile of private norms, seen through one noisy count a step (Andrew et al. 2021)."""

from __future__ import annotations

import math

AUTO_SHARE = 1 / 20
"""The noise on a count where none is stated, as a share of the expected batch size (Andrew et al. 2021)."""


def next_threshold(
    threshold: float, mean: float, *, target: float, learning_rate: float, low: float, high: float
) -> float:
    """Move a threshold geometrically towards the norm that a share `target` of examples stay below.

    Args:
        threshold: The one that the examples were held against.
        mean: The noisy mean of `1 if norm <= threshold else 0`, less 1/2: recentred, so that one example moves it half as far.
        target: The quantile to be reached.
        learning_rate: How fast; the threshold changes by at most about this factor's exponential.
        low: The threshold never falls below this.
        high: The threshold never rises above this.
    """
    below = mean + 0.5 if math.isfinite(mean) else target
    # The noisy mean has no bounds of its own; what it says beyond all and none of the examples is noise alone.
    return min(
        max(threshold * math.exp(-learning_rate * (min(max(below, -1.0), 2.0) - target)), low), high
    )
