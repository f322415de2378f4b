"""From counted events to privacy curves by their loss distributions, which are convolved.

The grid is 1e-4 wide for a constant schedule or a few events and at most 1e-3 for one of many noise multipliers; it widens only
where distributions would not fit in memory, and narrows where losses are mostly smaller than it. Every choice here keeps the
result an upper bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.pld.convolution import convolved
from dppipe.privacy.pld.distributions import Losses, event_losses, exposure, loss_range
from dppipe.privacy.pld.grid import Way
from dppipe.privacy.pld.windows import Windows

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation

    Counts = Mapping[DpEvent, int]

_INTERVALS = (1e-4, 2e-4, 5e-4, 1e-3)
_POINTS_TOGETHER = 300_000
"""Grid points of all distributions together up to which a finer interval is taken: about a second."""
_MOST_POINTS = 1 << 18
_MOST_COMPOSED = 1 << 21
_LEAST_VARIANCE = 16.0
"""Of a loss, in squared intervals: with less, putting losses on the grid adds some percent to it, or more than it was."""
_MOST_NARROWED = 150_000
"""Grid points up to which the grid is narrowed: a few tenths of a second."""
_NARROWEST = 1e-6
"""The narrowest interval that the grid is narrowed to."""
_ROUNDED_UP = 2.0**-40
"""What an event's probabilities are rounded up by, times the interval, is a fraction of this: of all events little may come."""
_UPWARD = 1 + 2.0**-46
"""More than what is rounded when logarithms of shares are added up, for some tens of stages."""


@dataclass(frozen=True)
class LossCurve:
    """The privacy curve of a composed loss distribution: the worse of its directions."""

    losses: Losses | None
    """None where nothing was released."""
    exposed: float
    """The probability that a release protects a record not at all, which adds to delta."""
    interval: float
    rounding: float
    """The largest factor by which a noise multiplier was rounded down, less 1."""

    def epsilon(self, delta: float) -> float:
        """Give the smallest epsilon whose delta is at most this; infinite if there is none."""
        left = delta - self.exposed
        if self.losses is None:
            return 0.0 if left >= 0 else math.inf
        return self.losses.epsilon(left)

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        return min(
            1.0, self.exposed + (self.losses.delta(epsilon) if self.losses is not None else 0.0)
        )

    def parameters(self) -> dict[str, Any]:
        """Give the grid and the rounding that are part of the bound."""
        return (
            {"interval": self.interval, "noise_rounded_down_by": self.rounding}
            if self.losses is not None
            else {}
        )


@functools.lru_cache(maxsize=3)
def remembered_curves(
    stages: tuple[tuple[tuple[DpEvent, int], ...], ...],
    *,
    relation: Relation,
    distinct: int | None,
    finest: float,
) -> tuple[LossCurve, ...]:
    """Give `loss_curves` of what was asked for last without composing again: a plan asks for one composition several times."""
    return tuple(
        loss_curves(
            [dict(stage) for stage in stages], relation=relation, distinct=distinct, finest=finest
        )
    )


def loss_curves(
    stages: Sequence[Counts], *, relation: Relation, distinct: int | None, finest: float = 1e-4
) -> Iterator[LossCurve]:
    """Give the privacy curve after each stage; a stage adds its events to all those before it.

    Args:
        stages: Events and how many times each is done, in parts.
        relation: What neighbouring data sets differ in.
        distinct: The most distinct events to compose.
        finest: The finest interval to take.
    """
    rounded, rounding = coarsened(stages, distinct=distinct)
    exposures = {event: exposure(event, relation=relation) for stage in rounded for event in stage}
    made, interval = _made(
        [
            {event: count for event, count in stage.items() if not exposures[event]}
            for stage in rounded
        ],
        relation=relation,
        finest=finest,
    )
    hidden, composed = 0.0, _composed(rounded, made, interval)
    for stage, losses in zip(rounded, composed, strict=True):
        hidden += math.fsum(count * _log_rest(exposures[event]) for event, count in stage.items())
        yield LossCurve(losses, min(1.0, -math.expm1(hidden) * _UPWARD), interval, rounding)


def grid_interval(
    counts: Counts, *, relation: Relation, distinct: int | None, finest: float
) -> float:
    """Give the interval that `loss_curves` starts with, without making a distribution."""
    (rounded,), _ = coarsened([counts], distinct=distinct)
    held = {
        event: count for event, count in rounded.items() if not exposure(event, relation=relation)
    }
    return _interval_for(held, relation=relation, finest=finest) if held else finest


def _log_rest(share: float) -> float:
    return math.log1p(-share) if share < 1 else -math.inf


def _composed(
    stages: Sequence[Counts], made: Mapping[DpEvent, Losses], interval: float
) -> Iterator[Losses | None]:
    """Compose after each stage; None while no event of known losses was done."""
    known = [
        {made[event]: count for event, count in stage.items() if event in made} for stage in stages
    ]
    directions = max((len(losses.ways) for losses in made.values()), default=0)
    sums = [convolved([_one_way(stage, way) for stage in known]) for way in range(directions)]
    done = False
    for stage, *ways in zip(known, *sums, strict=True):
        done = done or bool(stage)
        yield Losses(tuple(ways), interval) if done else None


def _one_way(stage: Mapping[Losses, int], way: int) -> dict[Way, int]:
    """Give one direction of a stage; an event whose directions are alike has but one."""
    return {losses.ways[min(way, len(losses.ways) - 1)]: count for losses, count in stage.items()}


def _made(
    stages: Sequence[Counts], *, relation: Relation, finest: float
) -> tuple[dict[DpEvent, Losses], float]:
    """Make each event's distribution on a grid on which they and their composition fit in memory."""
    counts: dict[DpEvent, int] = {}
    for stage in stages:
        for event, count in stage.items():
            counts[event] = counts.get(event, 0) + count
    if not counts:
        return {}, finest
    interval = _interval_for(counts, relation=relation, finest=finest)
    steps = sum(counts.values())
    narrowest = max(_NARROWEST, _ROUNDED_UP * steps)
    while True:
        made = {
            event: event_losses(event, relation=relation, interval=interval) for event in counts
        }
        sums = [
            Windows(_one_way({made[event]: count for event, count in counts.items()}, way))
            for way in (0, 1)
        ]
        longest = max(windows.length for windows in sums)
        points = max(longest, sum(losses.points for losses in made.values()))
        closed, variance = (
            all(losses.closed for losses in made.values()),
            max(windows.variance for windows in sums) / steps,
        )
        if longest > _MOST_COMPOSED:
            interval *= 1.1 * longest / _MOST_COMPOSED
        elif (
            closed
            and variance < _LEAST_VARIANCE
            and 4 * points <= _MOST_NARROWED
            and interval / 4 >= narrowest
        ):
            interval /= 4
        else:
            return made, interval


def _interval_for(counts: Counts, *, relation: Relation, finest: float) -> float:
    ranges = [loss_range(event, relation=relation) for event in counts]
    fitting = (
        interval
        for interval in _INTERVALS
        if len(counts) == 1 or sum(ranges) / interval <= _POINTS_TOGETHER
    )
    return max(finest, next(fitting, _INTERVALS[-1]), max(ranges) / _MOST_POINTS)
