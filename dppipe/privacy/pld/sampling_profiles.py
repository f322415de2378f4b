"""What sampling makes of the privacy profile of a release: Poisson sampling, subsets of fixed size, batches that are cut off.

A profile gives delta at every real epsilon; that of noise alone is the same in both directions of neighbouring data sets. Each
sampled one here is a sum of such deltas at other epsilons. Read next: `profiles.py`, which knows what each event asks for.

Guarantee: a profile is at least the exact delta of an epsilon that is larger by at most 14 units of 2^-53, less 14 units of
itself. Logarithms that go into a release's delta as its epsilon t are off by a few units of 1 + |t|, which its slack covers, and
for epsilon < 0 by what moves delta by a few units of 1 - e^epsilon, which is no more than delta. Only `added` has a factor that
goes to 0, 1 - e^(epsilon + ln(1-q)): there ln(1-q) is off by two units, and epsilon is as large.
"""

from __future__ import annotations

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
REACH, TAIL = 10.0, 8e-24
"""Standard deviations of noise beyond which outcomes count as infinite loss, and their mass."""
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
    """Give Gaussian noise of standard deviation s, over the sensitivity."""
    far, middle = REACH / s, 1 / (2 * s**2)
    return Release(lambda epsilon: gaussian_delta(epsilon, s), middle + far, far - middle)


def laplace_release(scale: float) -> Release:
    """Give Laplace noise of this scale, over the sensitivity: delta is 1 - e^((epsilon - 1/scale) / 2) within 1/scale of 0.

    Beyond, it is 1 - e^epsilon or 0. The largest loss, 1/scale, is raised by more than what epsilon may be off by.
    """
    largest = 1 / scale + 2.0**-46 * (1 + 1 / scale)

    def delta(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.expm1(np.minimum(np.minimum((epsilon - largest) / 2, epsilon), 0.0)))

    reach = largest * (1 + 2.0**-46)
    return Release(delta, reach, reach)


def diluted(loss: float, rate: float) -> float:
    """Give ln(1 - q + q e^loss), the loss that sampling leaves of a loss."""
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + loss)) if rate < 1 else loss


def whole(release: Release) -> tuple[Direction]:
    """Give the profile without sampling, in either direction."""
    return (Direction(release.delta, -release.present, release.present),)


def sampled(release: Release, rate: float) -> tuple[Direction, Direction]:
    """Give the profiles of Poisson sampling, of the pair P = (1-q) N(0) + q N(1) and Q = N(0): P from Q, Q from P.

    With a = e^epsilon, P - a Q = q N(1) - (a - 1 + q) N(0), and Q - a P = (1 - a + aq) N(0) - aq N(1): both positive parts are a
    multiple of the release's own, at a moved epsilon. Where a factor is negative, the part is everything or nothing.
    """

    def removed(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        grown = np.expm1(np.minimum(epsilon, _LARGEST_EXPONENT)) / rate
        return np.where(
            grown > -1,
            rate * release.delta(np.log1p(np.maximum(grown, _ALMOST))),
            -np.expm1(epsilon),
        )

    def added(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        left = -np.expm1(np.minimum(epsilon + np.log1p(-rate), 0.0))
        moved = epsilon + np.log(
            rate / np.maximum(left, np.finfo(np.float64).tiny)
        )  # of one sign: nothing cancels
        return np.asarray(left * release.delta(moved))

    least, most = diluted(-release.present, rate), diluted(release.present, rate)
    return Direction(removed, least, most), Direction(added, -diluted(release.absent, rate), -least)


def subset(z: float, rate: float) -> tuple[Direction]:
    """Give the profile of a uniform subset of fixed size under replace_one: q delta_G(ln(1 + (e^epsilon - 1)/q)), s = z/2.

    It is the amplification of Balle, Barthe and Gaboardi (2018), theorem 9, read as that of a dominating pair.
    """

    def profile(size: NDArray[np.float64]) -> NDArray[np.float64]:
        near = np.log1p(np.expm1(np.minimum(size, 50.0)) / rate)
        inner = np.where(
            size < 50, near, size - np.log(rate)
        )  # the same to 1e-21, and without overflow
        return rate * gaussian_delta(inner, z / 2)

    return _mirrored(profile, diluted(gaussian_release(z / 2).present, rate))


def swapped(z: float, rate: float, *, reach: float = REACH) -> tuple[Direction]:
    """Give the profile of Poisson-sampled Gaussian noise under replace_one: (1-q) N(0) + q N(1) and (1-q) N(0) + q N(-1).

    Guarantee: with a = e^epsilon >= 1, P - a Q = q [t (N(1) - (a/t) N(-1)) + (1-t) (N(1) - (k/(1-t)) N(0))] for every t between
    0 and 1, where k = (a-1)(1-q)/q. The positive part of a sum is at most the sum of the positive parts, so delta is at most
    q [t delta_G(ln(a/t), z/2) + (1-t) delta_G(ln(k/(1-t)), z)]. It is equal where both change sign at one outcome: for
    t = e^(-2 asinh w), w = sinh(epsilon/2) (1-q)/q e^(1/2z^2). A little less is taken for w, by more than it is rounded, which is
    as if k were less: and so delta is more. The same bound holds for any two records, in any dimension: each moves the sum by at
    most 1, they are at most 2 apart, and delta_G grows with the sensitivity. So the pair dominates all others.
    """
    middle = 1 / (2 * z**2)

    def profile(size: NDArray[np.float64]) -> NDArray[np.float64]:
        turn = np.arcsinh(np.sinh(size / 2) * ((1 - rate) / rate * np.exp(middle) * (1 - 2.0**-40)))
        opposite = np.exp(-2 * turn) * gaussian_delta(size + 2 * turn, z / 2)
        return np.asarray(
            rate * (opposite - np.expm1(-2 * turn) * gaussian_delta(size / 2 + turn - middle, z))
        )

    far = middle + reach / z
    return _mirrored(profile, diluted(far, rate) - diluted(-far - 2 * middle, rate))


def _mirrored(profile: Profile, highest: float) -> tuple[Direction]:
    """Give both halves of a profile from that of epsilon >= 0, where swapping the data sets changes nothing.

    For negative epsilon, delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon).
    """

    def both(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        found, negative = profile(np.abs(epsilon)), np.minimum(epsilon, 0.0)
        return np.asarray(-np.expm1(negative) + np.exp(negative) * found)

    return (Direction(both, -highest, highest),)


def cut_off(
    plain: tuple[Direction, ...], z: float, rate: float, *, records: int, most: int
) -> tuple[Direction, ...]:
    """Give the profiles of Poisson sampling whose batches are cut down to `most` records, from those of sampling that isn't.

    With probability p the other records alone fill the batch. Then the record is in what is left with probability `kept`, in
    place of another one: as if it were sampled at that rate and swapped, at twice the bound (Ganesh 2025, arXiv 2508.15089).
    Else batches are as they were. What the others do doesn't depend on the record, so the profiles mix. Either share is rounded
    up, since either profile may be the larger one; and so is `kept`, with which delta grows.
    """
    p, rest = (
        float(stats.binom.sf(most - 1, records - 1, rate)),
        float(stats.binom.cdf(most - 1, records - 1, rate)),
    )
    if p == 0:
        return plain
    kept = float(stats.binom.sf(most, records, rate)) * most / records / p
    (cut,) = swapped(
        z / 2, min(1.0, kept * (1 + _MARGIN)), reach=float(-special.ndtri(min(0.5, TAIL / p)))
    )

    def mixed(way: Direction) -> Direction:
        def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
            return (1 + _MARGIN) * (rest * way.profile(epsilon) + p * cut.profile(epsilon))

        return Direction(profile, min(way.lowest, cut.lowest), max(way.highest, cut.highest))

    return tuple(mixed(way) for way in plain)
