"""The ROC of a membership attack, with exact binomial bounds at each threshold.

Guarantee: at a threshold that is fixed beforehand, each rate lies within its bounds with
probability 95 % (Clopper and Pearson 1934), if records are independent draws. They share one
model, and thresholds are read off the scores: the band illustrates, and an audit tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
from scipy import special, stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.tradeoff.blow_up import BlowUp

    Floats = NDArray[numpy.float64]
    Counts = NDArray[numpy.int64]

ERROR = 0.025
"""The error on each side of a bound: 95 % between both."""


class Rate(NamedTuple):
    """A share with its bounds."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """A false- and a true-positive rate."""

    false_positives: float
    true_positives: float


@dataclass(frozen=True)
class Roc:
    """How many members and non-members lie above each threshold, the highest first."""

    true_positives: Counts  # [thresholds]; the first is 0
    false_positives: Counts  # [thresholds]; the first is 0
    members: int
    non_members: int
    area: float

    @property
    def rates(self) -> tuple[Floats, Floats]:
        """The false- and the true-positive rate at each threshold."""
        return self.false_positives / self.non_members, self.true_positives / self.members

    def at(self, false_positive_rate: float) -> Rate:
        """Return the largest true-positive rate with at most this false-positive rate."""
        allowed = int(numpy.floor(false_positive_rate * self.non_members + 1e-9))
        hits = int(self.true_positives[self.false_positives <= allowed].max())
        low, high = bounds(numpy.array([hits]), self.members)
        return Rate(hits / self.members, float(low[0]), float(high[0]))

    @property
    def advantage(self) -> float:
        """The largest difference between the two rates."""
        false_rate, true_rate = self.rates
        return float((true_rate - false_rate).max())

    def above(self, claim: BlowUp) -> Point | None:
        """Return the point of the lower band that lies furthest above a claim, if any does.

        The lower band has the upper bound of the false-positive rate, and the lower one of the
        true-positive rate.
        """
        _, high = bounds(self.false_positives, self.non_members)
        low, _ = bounds(self.true_positives, self.members)
        excess = low - claim(high)
        worst = int(excess.argmax())
        if excess[worst] <= 0:
            return None
        return Point(float(high[worst]), float(low[worst]))

    def to_data(self) -> dict[str, Any]:
        """Return the counts and what follows from them as plain data."""
        return {
            "members": self.members,
            "non_members": self.non_members,
            "auc": self.area,
            "advantage": self.advantage,
            "true_positives": self.true_positives.tolist(),
            "false_positives": self.false_positives.tolist(),
        }


def make_roc(scores: Floats, are_members: NDArray[numpy.bool_]) -> Roc:
    """Return the ROC of scores, larger for likelier members; one that isn't a number is lowest."""
    usable = numpy.where(numpy.isnan(scores), -numpy.inf, scores)
    inside = numpy.sort(usable[are_members])
    outside = numpy.sort(usable[~are_members])
    thresholds = numpy.unique(usable)[::-1]
    above = [len(inside) - numpy.searchsorted(inside, thresholds, side="left")]
    above.append(len(outside) - numpy.searchsorted(outside, thresholds, side="left"))
    hits, alarms = (numpy.concatenate([[0], counts]).astype(numpy.int64) for counts in above)
    return Roc(hits, alarms, len(inside), len(outside), area_under(inside, outside))


def area_under(inside: Floats, outside: Floats) -> float:
    """Return how often a member's score is above a non-member's; a tie counts one half."""
    ranks = stats.rankdata(numpy.concatenate([inside, outside]))[: len(inside)]
    wins = ranks.sum() - len(inside) * (len(inside) + 1) / 2
    return float(wins / (len(inside) * len(outside)))


def bounds(hits: Counts, draws: int) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson bounds of each share; 95 % between both."""
    low = special.betaincinv(numpy.maximum(hits, 1), draws - hits + 1, ERROR)
    high = special.betaincinv(hits + 1, numpy.maximum(draws - hits, 1), 1 - ERROR)
    return numpy.where(hits == 0, 0.0, low), numpy.where(hits == draws, 1.0, high)
