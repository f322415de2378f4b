"""Privacy profiles of events: delta as a function of every real epsilon, at many epsilons at once.

Noise alone and sampled noise have closed forms (`sampling_profiles.py`), and so have, but for a
root, mixtures of Gaussians (`mixtures.py`). Balls in bins has only random draws, which give
estimates. Read next: `distributions.py`, which puts profiles on a grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.balls_in_bins import sampled_losses
from dppipe.privacy.pld.mixtures import mixture_profiles
from dppipe.privacy.pld.sampling_profiles import (
    Direction,
    Release,
    cut_off,
    gaussian_release,
    laplace_release,
    sampled,
    subset,
    swapped,
    whole,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray


def directions(event: DpEvent, *, relation: Relation) -> tuple[Direction, ...]:
    """Return an event's profile in each direction of neighbouring datasets (lemma 13).

    There is one where both directions are alike, else that of removing a record and that of
    adding one.
    """
    name = type(event).__name__
    inner = type(getattr(event, "event", None)).__name__
    presence = relation != "replace_one"
    if name in ("GaussianDpEvent", "LaplaceDpEvent"):
        return whole(_release(event, sensitivity=1.0 if presence else 2.0))
    if name == "PoissonSampledDpEvent" and inner == "GaussianDpEvent":
        return _poisson(event.event.noise_multiplier, event.sampling_probability, relation)
    if name == "PoissonSampledDpEvent" and inner == "LaplaceDpEvent" and presence:
        return sampled(_release(event.event, sensitivity=1.0), event.sampling_probability)
    if name == "SampledWithoutReplacementDpEvent" and inner == "GaussianDpEvent" and not presence:
        return subset(event.event.noise_multiplier, event.sample_size / event.source_dataset_size)
    if name == "TruncatedSubsampledGaussianDpEvent" and relation != "add_remove":
        return _truncated(event, relation)
    if name == "MixtureOfGaussiansDpEvent" and presence:
        return mixture_profiles(event.standard_deviation, event.sensitivities, event.sampling_probs)
    if estimated(event) and relation == "zero_out":
        return tuple(map(_empirical, sampled_losses(event.event.noise_multiplier, event.bins)))
    got = name if inner == "NoneType" else f"{name} of {inner}"
    raise PrivacyRefusal(
        f"accountant pld: expected an event with known losses under {relation}, got {got}."
    )


def estimated(event: DpEvent) -> bool:
    """Whether an event's profile is known from random draws only, which prove nothing."""
    return (
        type(event).__name__ == "BallsInBinsDpEvent"
        and type(event.event).__name__ == "GaussianDpEvent"
    )


def _release(event: DpEvent, *, sensitivity: float) -> Release:
    made = laplace_release if type(event).__name__ == "LaplaceDpEvent" else gaussian_release
    return made(event.noise_multiplier / sensitivity)


def _poisson(z: float, rate: float, relation: Relation) -> tuple[Direction, ...]:
    if relation == "replace_one":
        return swapped(z, rate)
    return sampled(gaussian_release(z), rate)


def _truncated(event: DpEvent, relation: Relation) -> tuple[Direction, ...]:
    z = event.noise_multiplier
    rate = event.sampling_probability
    plain = _poisson(z, rate, relation)
    return cut_off(plain, z, rate, records=event.dataset_size, most=event.truncated_batch_size)


def _empirical(losses: NDArray[np.float64]) -> Direction:
    """Return the profile of random draws of a loss."""
    ordered = np.sort(losses)
    # From each draw up: how many there are, and their part under the other dataset. Small terms
    # are added first.
    lower = np.append(np.cumsum(np.exp(-ordered)[::-1])[::-1], 0.0)

    def profile(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        above = np.searchsorted(ordered, epsilon, side="right")
        return np.asarray((len(ordered) - above - np.exp(epsilon) * lower[above]) / len(ordered))

    return Direction(profile, float(ordered[0]), float(ordered[-1]))
