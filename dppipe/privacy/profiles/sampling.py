"""Privacy profiles of sampled noise: Poisson sampling, subsets of fixed size, truncated batches.

A profile gives delta at every real epsilon; that of noise alone is the same in both directions of
neighbouring datasets. Each sampled profile here is a sum of such deltas at other epsilons. The
files of `dppipe.privacy.events` say which profile an event has.

Guarantee: a profile is at least the exact delta of an epsilon that is larger by at most 14 units
of 2^-53, less 14 units of itself (`pld/PROOF.md`, lemmas 2 to 5 and their note on round-off).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dppipe.privacy.gaussian import gaussian_delta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Profile = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_LARGEST_EXPONENT = 700.0
"""e^700 is near the end of float64."""
_ALMOST = -1 + 2.0**-53
REACH = 10.0
"""Standard deviations of noise beyond which outcomes count as infinite loss."""
TAIL = 8e-24
"""The mass of noise beyond `REACH`."""
_MARGIN = 1e-9
"""Relative, on SciPy's binomial tails, which are right to 1e-12 or so."""


@dataclass(frozen=True)
class Direction:
    """The profile in one direction, and the losses outside of which next to no mass lies."""

    profile: Profile
    lowest: float
    highest: float


@dataclass(frozen=True)
class Release:
    """Noise on all records, alike in both directions."""

    delta: Profile
    present: float
    """The largest loss where the record is there, but for next to no mass."""
    absent: float
    """The largest logarithm of the same densities' ratio where it isn't."""


def gaussian_release(s: float) -> Release:
    """Return Gaussian noise of standard deviation s, over the sensitivity (lemma 1)."""
    far = REACH / s
    middle = 1 / (2 * s**2)
    return Release(lambda epsilon: gaussian_delta(epsilon, s), middle + far, far - middle)


def gaussian_reach(mu: float) -> float:
    """Return roughly the largest loss of Gaussian noise whose mean moves by mu deviations."""
    return mu**2 / 2 + REACH * mu if mu < 1e100 else math.inf


def laplace_release(scale: float) -> Release:
    """Return Laplace noise of this scale, over the sensitivity (lemma 1).

    The largest loss, 1/scale, is raised by more than what epsilon may be off by.
    """
    largest = 1 / scale + 2.0**-46 * (1 + 1 / scale)

    def delta(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        exponent = np.minimum(np.minimum((epsilon - largest) / 2, epsilon), 0.0)
        return np.asarray(-np.expm1(exponent))

    reach = largest * (1 + 2.0**-46)
    return Release(delta, reach, reach)


def diluted(loss: float, rate: float) -> float:
    """Return ln(1 - q + q e^loss), the loss that remains after sampling at a rate."""
    if rate >= 1:
        return loss
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + loss))


def whole(release: Release) -> tuple[Direction]:
    """Return the profile without sampling, which is the same in either direction."""
    return (Direction(release.delta, -release.present, release.present),)


def sampled(release: Release, rate: float) -> tuple[Direction, Direction]:
    """Return the profiles of Poisson sampling, removing a record first (lemma 2)."""

    def removed(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        grown = np.expm1(np.minimum(epsilon, _LARGEST_EXPONENT)) / rate
        moved = rate * release.delta(np.log1p(np.maximum(grown, _ALMOST)))
        return np.where(grown > -1, moved, -np.expm1(epsilon))

    def added(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        left = -np.expm1(np.minimum(epsilon + np.log1p(-rate), 0.0))
        # Both terms have one sign: nothing cancels.
        moved = epsilon + np.log(rate / np.maximum(left, np.finfo(np.float64).tiny))
        return np.asarray(left * release.delta(moved))

    least = diluted(-release.present, rate)
    most = diluted(release.present, rate)
    return Direction(removed, least, most), Direction(added, -diluted(release.absent, rate), -least)


def subset(z: float, rate: float) -> tuple[Direction]:
    """Return the profile of a uniform subset of fixed size under replace_one (lemma 3)."""

    def profile(size: NDArray[np.float64]) -> NDArray[np.float64]:
        near = np.log1p(np.expm1(np.minimum(size, 50.0)) / rate)
        # From 50 on the two are the same to 1e-21, and the second doesn't overflow.
        inner = np.where(size < 50, near, size - np.log(rate))
        return rate * gaussian_delta(inner, z / 2)

    return mirrored(profile, diluted(gaussian_release(z / 2).present, rate))


def swapped(z: float, rate: float, *, reach: float = REACH) -> tuple[Direction]:
    """Return the profile of Poisson-sampled Gaussian noise under replace_one (lemma 4)."""
    middle = 1 / (2 * z**2)

    def profile(size: NDArray[np.float64]) -> NDArray[np.float64]:
        # A little less than the best w, by more than it is rounded: then delta is a little more.
        factor = (1 - rate) / rate * np.exp(middle) * (1 - 2.0**-40)
        turn = np.arcsinh(np.sinh(size / 2) * factor)
        opposite = np.exp(-2 * turn) * gaussian_delta(size + 2 * turn, z / 2)
        absent = np.expm1(-2 * turn) * gaussian_delta(size / 2 + turn - middle, z)
        return np.asarray(rate * (opposite - absent))

    far = middle + reach / z
    return mirrored(profile, diluted(far, rate) - diluted(-far - 2 * middle, rate))


def mirrored(profile: Profile, highest: float) -> tuple[Direction]:
    """Extend a profile of epsilon >= 0 to negative epsilon, where both directions are alike.

    For negative epsilon, delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon) (lemma 13).
    """

    def both(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        found = profile(np.abs(epsilon))
        negative = np.minimum(epsilon, 0.0)
        return np.asarray(-np.expm1(negative) + np.exp(negative) * found)

    return (Direction(both, -highest, highest),)


def cut_off(
    plain: tuple[Direction, ...], z: float, rate: float, *, records: int, most: int
) -> tuple[Direction, ...]:
    """Return the profiles of Poisson sampling whose batches are truncated to `most` records.

    They are a mixture of the profiles `plain`, of sampling without truncation, and of a swap at
    twice the bound (lemma 5; Ganesh 2025, arXiv 2508.15089).
    """
    full = float(stats.binom.sf(most - 1, records - 1, rate))
    rest = float(stats.binom.cdf(most - 1, records - 1, rate))
    if full == 0:
        return plain
    kept = float(stats.binom.sf(most, records, rate)) * most / records / full
    reach = float(-special.ndtri(min(0.5, TAIL / full)))
    (cut,) = swapped(z / 2, min(1.0, kept * (1 + _MARGIN)), reach=reach)

    def mixed(direction: Direction) -> Direction:
        def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
            together = rest * direction.profile(epsilon) + full * cut.profile(epsilon)
            return (1 + _MARGIN) * together

        lowest = min(direction.lowest, cut.lowest)
        highest = max(direction.highest, cut.highest)
        return Direction(profile, lowest, highest)

    return tuple(mixed(direction) for direction in plain)
