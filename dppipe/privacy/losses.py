"""Privacy loss distributions of single events, made by dp_accounting, and remembered.

What is proven: the library puts each event's losses on a grid pessimistically (connect-the-dots, Doroshenko et al. 2022), and
counts the mass that it cuts off, at most 1e-15 a composition, as infinite loss. Only what it lacks is made here from a profile,
by its own connect-the-dots. Read next: `loss_curves.py`, which composes them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.profiles import Direction, diluted, directions

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LARGEST_LOSS = 700.0
"""An event that may lose more counts as no protection at all: e^700 is near the end of float64, and protects nobody."""
_REACH = 10.0
"""Standard deviations of noise within which the library takes losses to be finite."""
_MOST_KEPT = 4_000_000
"""Grid points that are remembered, of the events used last: 32 MB, and enough for the distinct events of any schedule."""


@dataclass(frozen=True)
class Losses:
    """The distribution of an event's privacy loss, and its size."""

    distribution: Any
    """dp_accounting's `PrivacyLossDistribution`, in both directions of neighbouring data sets."""
    points: int
    variance: float
    """Of the loss, in the direction where it is larger: how fast a composition widens."""


_kept: OrderedDict[tuple[DpEvent, Relation, float], Losses] = OrderedDict()


def event_losses(event: DpEvent, *, relation: Relation, interval: float) -> Losses:
    """Give the loss distribution of one event on a grid."""
    key = (event, relation, interval)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    try:
        with np.errstate(all="ignore"):  # tails that underflow; a number that went wrong is found by `dense`
            _kept[key] = dense(_made(event, relation=relation, interval=interval))
    except (ValueError, OverflowError) as error:
        raise PrivacyRefusal(f"accountant pld: expected losses that dp_accounting can hold, got {event}: {error}") from error
    while len(_kept) > 1 and sum(losses.points for losses in _kept.values()) > _MOST_KEPT:
        _kept.popitem(last=False)
    return _kept[key]


def exposure(event: DpEvent, *, relation: Relation) -> float:
    """Give the probability that an event protects a record not at all; 0 where its losses are of a size that can be held.

    A sampled event tells nothing about a record that it doesn't draw, so it is (0, rate)-differentially private whatever
    its noise is.
    """
    if _reach(event, relation=relation) <= LARGEST_LOSS:
        return 0.0
    return _rate(event)


def loss_range(event: DpEvent, *, relation: Relation) -> float:
    """Give about the width of the range that an event's losses lie in."""
    reach, rate = _reach(event, relation=relation), _rate(event)
    width = diluted(reach, rate) - diluted(-reach, rate)
    return width if relation != "replace_one" else 2 * diluted(reach, rate)


def dense(distribution: Any) -> Losses:
    """Give a distribution of the library as arrays: its sparse form is composed one by one, which may take for ever.

    The one place where private names of dp_accounting are read; the dependency is pinned below 0.7 for it.
    """
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    ways = [distribution._pmf_remove] if distribution._symmetric else [distribution._pmf_remove, distribution._pmf_add]
    arrays = [way.to_dense_pmf() for way in ways]
    if not all(np.isfinite(array._probs).all() and math.isfinite(array._infinity_mass) for array in arrays):
        raise ValueError("a probability that is no number")
    variances = []
    for array in arrays:
        losses = np.arange(array.size) * array._discretization
        mean = float(np.dot(losses, array._probs))
        variances.append(float(np.dot((losses - mean) ** 2, array._probs)))
    return Losses(PrivacyLossDistribution(*arrays), sum(array.size for array in arrays), max(variances))


def _made(event: DpEvent, *, relation: Relation, interval: float) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as library

    name, inner = type(event).__name__, getattr(event, "event", event)
    present, release = relation != "replace_one", type(inner).__name__
    # Removing a record and zeroing its gradient out give one and the same pair of outputs.
    neighbours = NeighboringRelation.REPLACE_SPECIAL if present else NeighboringRelation.REPLACE_ONE
    rate = event.sampling_probability if name == "PoissonSampledDpEvent" else 1.0
    if inner is event or name == "PoissonSampledDpEvent":
        if release == "GaussianDpEvent":
            return library.from_gaussian_mechanism(
                inner.noise_multiplier,
                value_discretization_interval=interval,
                sampling_prob=rate,
                neighboring_relation=neighbours,
            )
        if release == "LaplaceDpEvent" and (present or rate == 1):  # the library doesn't know that a swap counts twice
            return library.from_laplace_mechanism(
                inner.noise_multiplier, 1 if present else 2, value_discretization_interval=interval, sampling_prob=rate
            )
    if name == "TruncatedSubsampledGaussianDpEvent" and relation != "add_remove":
        return library.from_truncated_subsampled_gaussian_mechanism(
            event.dataset_size,
            event.sampling_probability,
            event.truncated_batch_size,
            event.noise_multiplier,
            value_discretization_interval=interval,
            neighboring_relation=neighbours,
        )
    if name == "MixtureOfGaussiansDpEvent" and present:
        return library.from_mixture_gaussian_mechanism(
            event.standard_deviation, event.sensitivities, event.sampling_probs, value_discretization_interval=interval
        )
    return library.PrivacyLossDistribution(*(_connected(way, interval) for way in directions(event, relation=relation)))


def _connected(way: Direction, interval: float) -> Any:
    """Connect the dots of a profile, between the losses outside of which next to no mass lies."""
    from dp_accounting.pld import pld_pmf

    lowest = math.floor(way.lowest / interval)
    highest = max(math.ceil(way.highest / interval), lowest + 1)
    epsilons = np.arange(lowest, highest + 1, dtype=np.float64) * interval
    deltas = np.clip(way.profile(epsilons), 0.0, 1.0)
    falling = np.maximum.accumulate(deltas[::-1])[::-1]  # round-off is rounded up
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, lowest, highest, falling)


def _reach(event: DpEvent, *, relation: Relation) -> float:
    """Give about the largest loss of an event when its record is drawn."""
    inner = getattr(event, "event", event)
    sensitivity = 2.0 if relation == "replace_one" else 1.0
    if type(inner).__name__ == "LaplaceDpEvent":
        return float(sensitivity / inner.noise_multiplier)
    if type(inner).__name__ == "MixtureOfGaussiansDpEvent":
        mu = max(inner.sensitivities) / inner.standard_deviation
    elif type(inner).__name__ == "TruncatedSubsampledGaussianDpEvent":
        mu = 4 / inner.noise_multiplier  # where a batch is cut off, the library charges a swap at doubled sensitivity
    else:
        mu = sensitivity / getattr(inner, "noise_multiplier", math.inf)
    return float(mu**2 / 2 + _REACH * mu) if mu < 1e100 else math.inf


def _rate(event: DpEvent) -> float:
    """Give the probability that an event draws a given record."""
    if type(event).__name__ == "SampledWithoutReplacementDpEvent":
        return float(event.sample_size / event.source_dataset_size)
    return float(getattr(event, "sampling_probability", 1.0))
