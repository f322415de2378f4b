"""Privacy profiles of single events: delta as a function of every real epsilon, in each direction of neighbouring data sets.

A profile determines an event's privacy loss distribution; `losses.py` discretises and composes it. The Gaussian ones are
closed forms; mixtures of Gaussians are asked of dp_accounting. Under zero_out and add_remove a sampled event has
two directions, which are composed apart: no single one is the worse at every epsilon (Lebeda et al. 2024).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.balls_in_bins import sampled_losses
from dppipe.privacy.budget import Relation
from dppipe.privacy.gaussian import gaussian_delta

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    Profile = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LARGEST_LOSS = 700.0
"""Losses above count as infinite: e^700 is near the end of float64, and no epsilon of that size protects anyone."""
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
    return tuple(
        Direction(way.profile, max(way.lowest, -LARGEST_LOSS), min(way.highest, LARGEST_LOSS))
        for way in _directions(event, relation=relation)
    )


def _directions(event: DpEvent, *, relation: Relation) -> tuple[Direction, ...]:
    name, present = type(event).__name__, relation in ("zero_out", "add_remove")
    inner = getattr(event, "event", event)
    if type(inner).__name__ in _RELEASES:
        release = _RELEASES[type(inner).__name__]
        if inner is event:
            return (release(event.noise_multiplier if present else event.noise_multiplier / 2),)
        if name == "PoissonSampledDpEvent" and present:
            return _sampled(release(inner.noise_multiplier), event.sampling_probability)
    if name == "PoissonSampledDpEvent" and type(inner).__name__ == "GaussianDpEvent":
        return (_swapped(inner.noise_multiplier, event.sampling_probability),)
    if name == "SampledWithoutReplacementDpEvent" and not present and type(inner).__name__ == "GaussianDpEvent":
        return (_subset(inner.noise_multiplier, event.sample_size / event.source_dataset_size),)
    if name == "TruncatedSubsampledGaussianDpEvent" and relation != "add_remove":
        return _truncated(event, relation=relation)
    if name == "MixtureOfGaussiansDpEvent" and present:
        return _mixture(event)
    if estimated(event) and relation == "zero_out":
        return tuple(map(_empirical, sampled_losses(event.event.noise_multiplier, event.bins)))
    raise PrivacyRefusal(f"accountant pld: expected an event with a known profile under {relation}, got {_named(event)}.")


def estimated(event: DpEvent) -> bool:
    """Whether an event's profile is known from random draws only, which prove nothing."""
    return type(event).__name__ == "BallsInBinsDpEvent" and type(event.event).__name__ == "GaussianDpEvent"


def _empirical(losses: NDArray[np.float64]) -> Direction:
    ordered = np.sort(losses)
    # From each draw up: how many there are, and their part under the other data set. Small terms are added first.
    lower = np.append(np.cumsum(np.exp(-ordered)[::-1])[::-1], 0.0)

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        above = np.searchsorted(ordered, epsilon, side="right")
        return np.asarray((len(ordered) - above - np.exp(epsilon) * lower[above]) / len(ordered))

    return Direction(profile, float(ordered[0]), float(ordered[-1]))


def _gaussian(z: float) -> Direction:
    middle = 0.5 / z**2
    return Direction(lambda epsilon: gaussian_delta(epsilon, z), middle - _REACH / z, middle + _REACH / z)


def _laplace(scale: float) -> Direction:
    """Give Laplace noise: losses between -1/b and 1/b, and 1 - e^((epsilon - 1/b)/2) between them."""
    most = 1 / scale

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = -np.expm1((np.minimum(epsilon, most) - most) / 2)
        return np.where(epsilon < -most, -np.expm1(epsilon), inside)

    return Direction(profile, -most, most)


_RELEASES: dict[str, Callable[[float], Direction]] = {"GaussianDpEvent": _gaussian, "LaplaceDpEvent": _laplace}


def _sampled(base: Direction, rate: float) -> tuple[Direction, Direction]:
    """Give Poisson sampling of a release P1 against P0 that is alike in both directions.

    Removing a record is (1-q) P0 + q P1 against P0, whose profile is q base(ln(1 + (e^epsilon - 1)/q)). Adding one is the pair
    the other way round: a base(ln(b/a)) with a = 1 - (1-q) e^epsilon and b = q e^epsilon.
    """

    def removed(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        unsampled = np.expm1(epsilon) <= -rate  # e^epsilon <= 1-q: the whole space counts
        small = np.log1p(np.expm1(np.clip(np.where(unsampled, 0.0, epsilon), None, 50.0)) / rate)
        inner = np.where(epsilon < 50, small, epsilon - np.log(rate))  # the same to 1e-21, and without overflow
        return np.where(unsampled, -np.expm1(epsilon), rate * base.profile(inner))

    def added(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        weight = np.maximum(-np.expm1(epsilon + np.log1p(-rate)), 0.0)
        inner = epsilon + np.log(rate) - np.log(np.where(weight > 0, weight, 1.0))
        return np.asarray(weight * base.profile(inner))

    low, high = _diluted(-base.highest, rate), _diluted(base.highest, rate)
    return Direction(removed, low, high), Direction(added, -high, -low)


def _diluted(loss: float, rate: float) -> float:
    """Give ln(1 - q + q e^loss), the loss that sampling leaves of a loss."""
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + loss))


def _swapped(z: float, rate: float) -> Direction:
    """Give (1-q) N(0, z^2) + q N(1, z^2) against (1-q) N(0, z^2) + q N(-1, z^2), which dominates replacing a record."""
    log_rest = np.log1p(-rate) if rate < 1 else -np.inf

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        # The loss is monotone in the outcome x; at the outcome where it equals epsilon, e^(x/z^2) solves a quadratic.
        half = np.abs(epsilon) / 2
        with np.errstate(divide="ignore"):
            log_sinh = np.where(half > 0, half + np.log(-np.expm1(-2 * half)) - np.log(2), -np.inf)
        log_y = log_rest + log_sinh - np.log(rate) + 0.5 / z**2
        arcsinh = np.where(log_y > 20, log_y + np.log(2), np.arcsinh(np.exp(np.minimum(log_y, 20))))
        x = z**2 * (epsilon / 2 + np.sign(epsilon) * arcsinh)
        return np.asarray(
            -np.exp(log_rest) * np.expm1(epsilon) * special.ndtr(-x / z)
            + rate * special.ndtr((1 - x) / z)
            - rate * np.exp(epsilon + special.log_ndtr((-1 - x) / z))
        )

    if rate == 1:
        return _gaussian(z / 2)
    far = 0.5 / z**2 + _REACH / z
    highest = _diluted(far, rate) - _diluted(-far - 1 / z**2, rate)
    return Direction(profile, -highest, highest)


def _subset(z: float, rate: float) -> Direction:
    """Give the profile of a uniform subset of fixed size under replace_one: q delta_G(ln(1 + (e^epsilon - 1)/q)), s = z/2.

    For negative epsilon the symmetry of the relation gives delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon). The
    profile is the amplification of Balle, Barthe and Gaboardi (2018), theorem 9, read as that of a dominating pair.
    """
    upper, _ = _sampled(_gaussian(z / 2), rate)

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        mirrored = upper.profile(np.abs(epsilon))
        return np.where(epsilon >= 0, mirrored, -np.expm1(epsilon) + np.exp(np.minimum(epsilon, 0)) * mirrored)

    return Direction(profile, -upper.highest, upper.highest)


def _truncated(event: DpEvent, *, relation: Relation) -> tuple[Direction, ...]:
    """Give Poisson sampling whose batches are cut off at a size: where one is cut, a record may push out another.

    With the probability of a cut, given that the record is drawn, the change is a swap at doubled sensitivity; else it is
    plain Poisson sampling. This is the bound behind dp_accounting's event of the same name.
    """
    records, rate, most, z = event.dataset_size, event.sampling_probability, event.truncated_batch_size, event.noise_multiplier
    plain = _sampled(_gaussian(z), rate) if relation == "zero_out" else (_swapped(z, rate),)
    cut = float(stats.binom.sf(most - 1, records - 1, rate))
    if cut == 0:
        return plain
    kept = float(stats.binom.sf(most, records, rate)) * most / cut / records
    swap = _swapped(z / 2, min(1.0, kept))
    return tuple(_weighted(swap, cut, direction) for direction in plain)


def _weighted(one: Direction, weight: float, other: Direction) -> Direction:
    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return weight * one.profile(epsilon) + (1 - weight) * other.profile(epsilon)

    return Direction(profile, min(one.lowest, other.lowest), max(one.highest, other.highest))


def _mixture(event: DpEvent) -> tuple[Direction, ...]:
    from dp_accounting.pld import privacy_loss_mechanism as library

    make = functools.partial(
        library.MixtureGaussianPrivacyLoss, event.standard_deviation, event.sensitivities, event.sampling_probs
    )
    kinds = library.AdjacencyType
    return tuple(_asked(make(adjacency_type=kind)) for kind in (kinds.REMOVE, kinds.ADD))


def _asked(mechanism: Any) -> Direction:
    bounds = mechanism.connect_dots_bounds()
    return Direction(
        lambda epsilon: np.asarray(mechanism.get_delta_for_epsilon(epsilon), dtype=np.float64),
        bounds.epsilon_lower,
        bounds.epsilon_upper,
    )


def _named(event: DpEvent) -> str:
    inner = getattr(event, "event", None)
    return f"{type(event).__name__} of {type(inner).__name__}" if inner is not None else type(event).__name__
