"""Privacy loss distributions of single events on a grid, and remembered.

Guarantee: the delta of the losses on the grid is at least the event's, at every epsilon. Each event's losses are put on the grid
pessimistically, by connecting the dots of its privacy profile (Doroshenko et al. 2022), which `profiles.py` gives all at once.
Read next: `convolutions.py`, which adds losses up, and `loss_curves.py`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.pld.fft import UNIT
from dppipe.privacy.pld.grid import Way
from dppipe.privacy.pld.profiles import directions, estimated
from dppipe.privacy.pld.sampling_profiles import REACH, Direction, diluted

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LARGEST_LOSS = 700.0
"""An event that may lose more counts as no protection at all: e^700 is near the end of float64, and protects nobody."""
_MOST_KEPT = 4_000_000
"""Grid points that are remembered, of the events used last, if all are of the size of the newest: 32 MB or so."""

_UNITS = 16 * UNIT
_LEAST = 2.0**-80
"""Added to every delta: a smaller one is not told from 0."""


@dataclass(frozen=True, eq=False)
class Losses:
    """The distribution of an event's privacy loss on a grid."""

    ways: tuple[Way, ...]
    """One where both directions of neighbouring data sets are alike, else removing a record and adding one."""
    interval: float
    closed: bool = False
    """Whether their profile is known, so that a narrower grid serves as well, or comes from random draws."""

    @property
    def points(self) -> int:
        """The size of the grid, over all directions."""
        return sum(len(way.probabilities) for way in self.ways)

    def delta(self, epsilon: float) -> float:
        """Give the delta at an epsilon: that of the worse direction."""
        return max(way.delta(epsilon, interval=self.interval) for way in self.ways)

    def epsilon(self, delta: float) -> float:
        """Give the least epsilon >= 0 whose delta is at most this; infinite if there is none."""
        return max(way.epsilon(delta, interval=self.interval) for way in self.ways)


_kept: OrderedDict[tuple[DpEvent, Relation, float], Losses] = OrderedDict()


def event_losses(event: DpEvent, *, relation: Relation, interval: float) -> Losses:
    """Give the loss distribution of one event on a grid."""
    key = (event, relation, interval)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    try:
        with np.errstate(
            all="ignore"
        ):  # tails that underflow; a number that went wrong is found below
            ways = tuple(_connected(way, interval) for way in directions(event, relation=relation))
        made = Losses(ways, interval, closed=not estimated(event))
        if not all(
            np.isfinite(way.probabilities).all() and math.isfinite(way.infinite)
            for way in made.ways
        ):
            raise ValueError("a probability that is no number")
    except (ValueError, OverflowError) as error:
        raise PrivacyRefusal(
            f"accountant pld: expected losses that float64 can hold, got {event}: {error}"
        ) from error
    while len(_kept) > _MOST_KEPT // made.points:
        _kept.popitem(last=False)
    _kept[key] = made
    return made


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


def _connected(way: Direction, interval: float) -> Way:
    """Connect the dots of a profile, between the losses outside of which next to no mass lies (Doroshenko et al. 2022).

    In e^epsilon the profile is convex, so that straight lines between dots lie above it: they are the profile of losses that lie
    on the dots. What is lost below the lowest dot counts as the lowest loss, what is beyond the highest as infinite. The
    formula is dp_accounting's, which goes through a dictionary, one dot at a time.

    Round-off: a profile falls, so a dot is taken 16 units to the left, more than it is rounded by. What profiles round is
    relative to delta, or within a release's slack; only where `added` ends it is relative to epsilon, and the same shift covers
    it. What underflows is below `_LEAST`. Given the dots, a probability is (f e^interval - g) / (e^interval - 1) for the falls f
    before and g after its dot. The first product is off by 4 units of it, g by 1, and the rest by 4 units of the result. Over
    all probabilities above a dot, falls add up to no more than its height: so these are off, together, by at most
    8 + 5 / interval units of the height. 16 + 16 / interval are added; to the probabilities, since they also make up 1.
    Then delta is high enough on every dot and below all, and between dots it is a straight line.
    """
    lowest = math.floor(way.lowest / interval)
    highest = max(math.ceil(way.highest / interval), lowest + 1)
    epsilons = np.arange(lowest, highest + 1, dtype=np.float64) * interval
    lower = epsilons - _UNITS * np.abs(epsilons)
    deltas = (
        np.clip(way.profile(lower), np.maximum(-np.expm1(lower), 0.0), 1.0) * (1 + _UNITS) + _LEAST
    )
    falling = np.maximum.accumulate(deltas[::-1])[::-1]  # round-off is rounded up
    falls, grown = np.diff(falling), math.expm1(interval)
    probabilities = np.empty_like(falling)
    probabilities[0] = 1 - falling[0] + falls[0] / grown
    probabilities[1:-1] = (falls[1:] - falls[:-1] * (1 + grown)) / grown
    probabilities[-1] = falls[-1] / math.expm1(-interval)
    upward = 1 + _UNITS * (1 + 1 / interval)
    return Way(lowest, np.maximum(probabilities, 0.0) * upward, float(falling[-1]) * upward)


def _reach(event: DpEvent, *, relation: Relation) -> float:
    """Give about the largest loss of an event when its record is drawn."""
    inner = getattr(event, "event", event)
    sensitivity = 2.0 if relation == "replace_one" else 1.0
    if type(inner).__name__ == "LaplaceDpEvent":
        return float(sensitivity / inner.noise_multiplier)
    if type(inner).__name__ == "MixtureOfGaussiansDpEvent":
        mu = max(inner.sensitivities, default=0.0) / inner.standard_deviation
    elif type(inner).__name__ == "TruncatedSubsampledGaussianDpEvent":
        mu = 4 / inner.noise_multiplier  # where a batch is cut off, a swap counts twice
    else:
        mu = sensitivity / getattr(inner, "noise_multiplier", math.inf)
    return float(mu**2 / 2 + REACH * mu) if mu < 1e100 else math.inf


def _rate(event: DpEvent) -> float:
    """Give the probability that an event draws a given record."""
    if type(event).__name__ == "SampledWithoutReplacementDpEvent":
        return float(event.sample_size / event.source_dataset_size)
    return float(getattr(event, "sampling_probability", 1.0))
