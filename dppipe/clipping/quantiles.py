"""A threshold that follows a quantile of private norms by one noisy count a step.

Source: Andrew et al. 2021.
"""

from __future__ import annotations

import math
from typing import Literal

AUTO_SHARE = 1 / 20
"""The default noise on a count, as a share of the expected batch size (Andrew et al. 2021)."""


def count_std(stated: float | Literal["auto"], expected_batch_size: float) -> float:
    """Return the noise on a count: the stated one, or for `auto` a share of the batch."""
    if stated == "auto":
        return AUTO_SHARE * expected_batch_size
    return float(stated)


def next_threshold(
    threshold: float, mean: float, *, target: float, learning_rate: float, low: float, high: float
) -> float:
    """Move a threshold geometrically towards the norm that a share `target` of examples stay below.

    Args:
        threshold: The threshold that the norms were compared with.
        mean: The noisy mean of `1 if norm <= threshold else 0`, less 1/2. It is recentred, so that
            one example moves it half as far.
        target: The quantile to be reached.
        learning_rate: How fast; the threshold changes by at most about this factor's exponential.
        low: The threshold never falls below this.
        high: The threshold never rises above this.
    """
    below = mean + 0.5 if math.isfinite(mean) else target
    # A share below 0 or above 1 is noise alone, so it is cut off at some distance.
    below = min(max(below, -1.0), 2.0)
    moved = threshold * math.exp(-learning_rate * (below - target))
    return min(max(moved, low), high)
