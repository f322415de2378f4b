"""Privacy profiles: delta as a function of every real epsilon, at many epsilons at once.

Gaussian noise, alone or Poisson-sampled, and a uniform subset of fixed size under replace_one have closed forms; so do, but for a
root, mixtures of Gaussians (`mixtures.py`). Of balls in bins only random draws are known, which give estimates. dp_accounting
works most of them out too, but one epsilon at a time, or not at all. `losses.py` puts them on a grid.

Guarantee: a closed form is at least the exact delta of an epsilon that is larger by at most 14 units of 2^-53, less 14 units of
itself. Logarithms that go into `gaussian_delta` as its epsilon t are off by a few units of 1 + |t|, which its slack covers, and
for epsilon < 0 by what moves delta by a few units of 1 - e^epsilon, which is no more than delta. Only `added` has a factor that
goes to 0, 1 - e^(epsilon + ln(1-q)): there ln(1-q) is off by two units, and epsilon is as large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.balls_in_bins import sampled_losses
from dppipe.privacy.budget import Relation
from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.mixtures import mixture_profiles

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    Profile = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LARGEST_EXPONENT = 700.0
"""e^700 is near the end of float64."""
_ALMOST = -1 + 2.0**-53
_REACH = 10.0
"""Standard deviations of noise beyond which outcomes count as infinite loss: a mass of 8e-24."""


@dataclass(frozen=True)
class Direction:
    """The profile in one direction, and the losses outside of which next to no mass lies."""

    profile: Profile
    lowest: float
    highest: float


def directions(event: DpEvent, *, relation: Relation) -> tuple[Direction, ...]:
    """Give an event's directions: one where both are alike, else removing a record and adding one."""
    name, inner = type(event).__name__, type(getattr(event, "event", None)).__name__
    if name == "GaussianDpEvent":
        return (_whole(event.noise_multiplier / (2.0 if relation == "replace_one" else 1.0)),)
    if name == "PoissonSampledDpEvent" and relation != "replace_one" and inner == "GaussianDpEvent":
        return _sampled(event.event.noise_multiplier, event.sampling_probability)
    if name == "SampledWithoutReplacementDpEvent" and relation == "replace_one" and inner == "GaussianDpEvent":
        return (_subset(event.event.noise_multiplier, event.sample_size / event.source_dataset_size),)
    if name == "MixtureOfGaussiansDpEvent" and relation != "replace_one":
        found = mixture_profiles(event.standard_deviation, event.sensitivities, event.sampling_probs)
        return tuple(Direction(*each) for each in found)
    if estimated(event) and relation == "zero_out":
        return tuple(map(_empirical, sampled_losses(event.event.noise_multiplier, event.bins)))
    got = name if inner == "NoneType" else f"{name} of {inner}"
    raise PrivacyRefusal(f"accountant pld: expected an event with known losses under {relation}, got {got}.")


def estimated(event: DpEvent) -> bool:
    """Whether an event's profile is known from random draws only, which prove nothing."""
    return type(event).__name__ == "BallsInBinsDpEvent" and type(event.event).__name__ == "GaussianDpEvent"


def diluted(loss: float, rate: float) -> float:
    """Give ln(1 - q + q e^loss), the loss that sampling leaves of a loss."""
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + loss)) if rate < 1 else loss


def _whole(z: float) -> Direction:
    """Give the profile of Gaussian noise on the whole data set, in either direction."""
    reach = _gaussian_reach(z)
    return Direction(lambda epsilon: gaussian_delta(epsilon, z), -reach, reach)


def _sampled(z: float, rate: float) -> tuple[Direction, Direction]:
    """Give the profiles of the Poisson-sampled Gaussian, of the pair P = (1-q) N(0) + q N(1) and Q = N(0): P from Q, Q from P.

    With a = e^epsilon, P - a Q = q N(1) - (a - 1 + q) N(0), and Q - a P = (1 - a + aq) N(0) - aq N(1): both positive parts are a
    multiple of the Gaussian's own, at a moved epsilon. Where a factor is negative, the part is everything or nothing.
    """

    def removed(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        grown = np.expm1(np.minimum(epsilon, LARGEST_EXPONENT)) / rate
        return np.where(grown > -1, rate * gaussian_delta(np.log1p(np.maximum(grown, _ALMOST)), z), -np.expm1(epsilon))

    def added(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        left = -np.expm1(np.minimum(epsilon + np.log1p(-rate), 0.0))
        moved = epsilon + np.log(rate / np.maximum(left, np.finfo(np.float64).tiny))  # of one sign: nothing cancels
        return np.asarray(left * gaussian_delta(moved, z))

    reach = _gaussian_reach(z)
    least, most = diluted(-reach, rate), diluted(reach, rate)
    return Direction(removed, least, most), Direction(added, -diluted(reach - z**-2, rate), -least)


def _gaussian_reach(z: float) -> float:
    """Give the loss of Gaussian noise at its reach."""
    return 1 / (2 * z**2) + _REACH / z


def _subset(z: float, rate: float) -> Direction:
    """Give the profile of a uniform subset of fixed size under replace_one: q delta_G(ln(1 + (e^epsilon - 1)/q)), s = z/2.

    For negative epsilon the symmetry of the relation gives delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon). The
    profile is the amplification of Balle, Barthe and Gaboardi (2018), theorem 9, read as that of a dominating pair.
    """

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        size = np.abs(epsilon)
        near = np.log1p(np.expm1(np.minimum(size, 50.0)) / rate)
        inner = np.where(size < 50, near, size - np.log(rate))  # the same to 1e-21, and without overflow
        mirrored = rate * gaussian_delta(inner, z / 2)
        return np.where(epsilon >= 0, mirrored, -np.expm1(epsilon) + np.exp(np.minimum(epsilon, 0)) * mirrored)

    highest = diluted(2 / z**2 + 2 * _REACH / z, rate)
    return Direction(profile, -highest, highest)


def _empirical(losses: NDArray[np.float64]) -> Direction:
    ordered = np.sort(losses)
    # From each draw up: how many there are, and their part under the other data set. Small terms are added first.
    lower = np.append(np.cumsum(np.exp(-ordered)[::-1])[::-1], 0.0)

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        above = np.searchsorted(ordered, epsilon, side="right")
        return np.asarray((len(ordered) - above - np.exp(epsilon) * lower[above]) / len(ordered))

    return Direction(profile, float(ordered[0]), float(ordered[-1]))
