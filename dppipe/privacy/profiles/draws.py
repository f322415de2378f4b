"""Profiles of random draws of a privacy loss: estimates, which prove nothing."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.privacy.profiles.sampling import Direction

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRAWS = 10_000_000
"""Normal draws for an estimate: less than a second."""


@functools.lru_cache(maxsize=4)
def sampled_losses(z: float, bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw privacy losses of one epoch of balls in bins: ln P/Q under P, and ln Q/P under Q.

    The draws are of public numbers, so that a seed does no harm: the same question gets the same
    answer.
    """
    generator = np.random.default_rng(0)
    found = []
    size = min(1_000_000, max(100_000, _DRAWS // bins))
    for removed in (1.0, 0.0):
        losses = np.empty(size)
        for start in range(0, size, 10_000):
            x = generator.normal(scale=z, size=(min(10_000, size - start), bins))
            x[:, 0] += removed  # all bins are alike, so the record may be in the first
            losses[start : start + len(x)] = special.logsumexp(
                (2 * x - 1) / (2 * z**2), axis=1
            ) - math.log(bins)
        found.append(losses if removed else -losses)
    return found[0], found[1]


def drawn_profile(losses: NDArray[np.float64]) -> Direction:
    """Return the profile of random draws of a loss."""
    ordered = np.sort(losses)
    # From each draw up: how many there are, and their part under the other dataset. Small terms
    # are added first.
    lower = np.append(np.cumsum(np.exp(-ordered)[::-1])[::-1], 0.0)

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        above = np.searchsorted(ordered, epsilon, side="right")
        return np.asarray((len(ordered) - above - np.exp(epsilon) * lower[above]) / len(ordered))

    return Direction(profile, float(ordered[0]), float(ordered[-1]))
