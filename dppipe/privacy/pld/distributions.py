"""Privacy loss distributions of single events on a grid, and a cache of them.

Guarantee: the delta of the losses on the grid is at least the event's, at every epsilon. Each
event's losses are put on the grid pessimistically, by connecting the dots of its privacy profile
(Doroshenko et al. 2022; `PROOF.md`, lemma 7). Read next: `convolution.py`, which adds losses up.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule, rule_of
from dppipe.privacy.pld.grid import LossPmf
from dppipe.privacy.pld.profiles import directions, estimated
from dppipe.privacy.profiles.sampling import Direction, diluted
from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LARGEST_LOSS = 700.0
"""An event that may lose more counts as no protection at all: e^700 is near the end of float64."""
_MOST_KEPT = 4_000_000
"""Grid points in the cache, if all events are of the size of the newest: about 32 MB."""

_UNITS = 16 * UNIT
_LEAST = 2.0**-80
"""Added to every delta: a smaller one can't be distinguished from 0."""


@dataclass(frozen=True, eq=False)
class Losses:
    """The distribution of an event's privacy loss on a grid."""

    pmfs: tuple[LossPmf, ...]
    """One where both directions of neighbouring datasets are alike; else the losses of removing a
    record, then those of adding one."""
    interval: float
    closed: bool = False
    """Whether the profile has a closed form, so that a narrower grid is tighter; random draws have
    none."""

    @property
    def points(self) -> int:
        """The size of the grid, over all directions."""
        return sum(len(pmf.probabilities) for pmf in self.pmfs)

    def delta(self, epsilon: float) -> float:
        """Return the delta at an epsilon: that of the worse direction."""
        return max(pmf.delta(epsilon, interval=self.interval) for pmf in self.pmfs)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0 whose delta is at most this; infinite if there is none."""
        return max(pmf.epsilon(delta, interval=self.interval) for pmf in self.pmfs)


_kept: OrderedDict[tuple[DpEvent, Relation, float], Losses] = OrderedDict()


def event_losses(event: DpEvent, *, relation: Relation, interval: float) -> Losses:
    """Return the loss distribution of one event on a grid."""
    key = (event, relation, interval)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    try:
        with np.errstate(all="ignore"):  # tails underflow; a bad number is found below
            found = directions(event, relation=relation)
            pmfs = tuple(_connected(direction, interval) for direction in found)
        _check_finite(pmfs)
    except (ValueError, OverflowError) as error:
        raise PrivacyRefusal(
            f"accountant pld: expected losses that float64 can hold, got {event}: {error}"
        ) from error
    made = Losses(pmfs, interval, closed=not estimated(event, relation=relation))
    while len(_kept) > _MOST_KEPT // made.points:
        _kept.popitem(last=False)
    _kept[key] = made
    return made


def _check_finite(pmfs: tuple[LossPmf, ...]) -> None:
    for pmf in pmfs:
        if not (np.isfinite(pmf.probabilities).all() and math.isfinite(pmf.infinite)):
            raise ValueError("a probability that is no number")


def exposure(event: DpEvent, *, relation: Relation) -> float:
    """Return the probability that an event doesn't protect a record at all (lemma 14).

    It is 0 where the event's losses fit on a grid. A sampled event reveals nothing about a record
    that it doesn't draw, so it is (0, rate)-differentially private whatever its noise is.
    """
    if _reach(event, relation=relation) <= LARGEST_LOSS:
        return 0.0
    return _rate(event)


def loss_range(event: DpEvent, *, relation: Relation) -> float:
    """Return roughly the width of the range that an event's losses lie in."""
    reach = _reach(event, relation=relation)
    rate = _rate(event)
    if relation == "replace_one":
        return 2 * diluted(reach, rate)
    return diluted(reach, rate) - diluted(-reach, rate)


def _connected(direction: Direction, interval: float) -> LossPmf:
    """Connect the dots of a profile between its lowest and its highest loss (lemma 7).

    The formula is that of dp_accounting, which computes one dot at a time.
    """
    lowest = math.floor(direction.lowest / interval)
    highest = max(math.ceil(direction.highest / interval), lowest + 1)
    epsilons = np.arange(lowest, highest + 1, dtype=np.float64) * interval
    lower = epsilons - _UNITS * np.abs(epsilons)
    least = np.maximum(-np.expm1(lower), 0.0)
    deltas = np.clip(direction.profile(lower), least, 1.0) * (1 + _UNITS) + _LEAST
    falling = np.maximum.accumulate(deltas[::-1])[::-1]  # round-off is rounded up
    falls = np.diff(falling)
    grown = math.expm1(interval)
    probabilities = np.empty_like(falling)
    probabilities[0] = 1 - falling[0] + falls[0] / grown
    probabilities[1:-1] = (falls[1:] - falls[:-1] * (1 + grown)) / grown
    probabilities[-1] = falls[-1] / math.expm1(-interval)
    upward = 1 + _UNITS * (1 + 1 / interval)
    return LossPmf(lowest, np.maximum(probabilities, 0.0) * upward, float(falling[-1]) * upward)


def _reach(event: DpEvent, *, relation: Relation) -> float:
    """Return roughly the largest loss of an event when its record is drawn."""
    rule = proven_rule("pld", event, relation=relation)
    return math.inf if rule.reach is None else rule.reach(event, relation)


def _rate(event: DpEvent) -> float:
    """Return the probability that an event draws a given record."""
    rate = rule_of(event).rate
    return 1.0 if rate is None else rate(event)
