"""From counted events to privacy curves by their loss distributions: what is rounded, on which grid, in which directions.

The grid is 1e-4 wide for a constant schedule and at most 1e-3 for one of many noise multipliers; it widens only where an event
loses so much that its distribution would not fit in memory. Every choice here keeps the result an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.privacy.coarsening import coarsened
from dppipe.privacy.losses import Losses, compose, event_losses, loss_range, widest

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation
    from dppipe.privacy.losses import Parts

    Counts = Mapping[DpEvent, int]

_INTERVALS = (1e-4, 2e-4, 5e-4, 1e-3)
_POINTS_TOGETHER = 300_000
"""Grid points of all distributions together up to which a finer interval is taken: about a third of a second."""
_MOST_POINTS = 1 << 20


@dataclass(frozen=True)
class LossCurve:
    """The privacy curve of composed loss distributions: the worse of the directions."""

    ways: tuple[Losses, ...]
    rounding: float
    """The largest factor by which a noise multiplier was rounded down, less 1."""

    def epsilon(self, delta: float) -> float:
        """Give the smallest epsilon whose delta is at most this."""
        return max((way.epsilon(delta) for way in self.ways), default=0.0)

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        return max((way.delta(epsilon) for way in self.ways), default=0.0)

    def parameters(self) -> dict[str, Any]:
        """Give the grid and the errors that are part of the bound, or far below it."""
        if not self.ways:
            return {}
        return {
            "interval": self.ways[0].interval,
            "noise_rounded_down_by": self.rounding,
            "delta_round_off": max(way.round_off for way in self.ways),
        }


def loss_curves(
    stages: Sequence[Counts], *, relation: Relation, distinct: int, finest: float = 1e-4, optimistic: bool = False
) -> Iterator[LossCurve]:
    """Give the privacy curve after each stage; a stage adds its events to all those before it.

    Args:
        stages: Events and how many times each is done, in parts.
        relation: What neighbouring data sets differ in.
        distinct: The most distinct events to compose.
        finest: The finest interval to take.
        optimistic: Round noise up instead of down, which gives no bound but says what rounding costs.
    """
    rounded, rounding = coarsened(stages, distinct=distinct, up=optimistic)
    empty = next((number for number, stage in enumerate(rounded) if stage), len(rounded))
    yield from [LossCurve((), 0.0)] * empty
    left = rounded[empty:]
    if not left:
        return
    ways = _ways(left, relation=relation, interval=_interval_for(left, relation=relation, finest=finest))
    for composed in zip(*(compose(parts) for parts in ways), strict=True):
        yield LossCurve(composed, rounding)


def _ways(stages: Sequence[Counts], *, relation: Relation, interval: float) -> list[list[Parts]]:
    """Give the stages of each direction: one where every event is alike in both, else two."""
    made = [[(event_losses(event, relation=relation, interval=interval), n) for event, n in stage.items()] for stage in stages]
    number = max(len(pair) for stage in made for pair, _ in stage)
    ways: list[list[Parts]] = [
        [[(pair[min(way, len(pair) - 1)], n) for pair, n in stage] for stage in made] for way in range(number)
    ]
    excess = max(map(widest, ways)) / _MOST_POINTS
    return ways if excess <= 1 else _ways(stages, relation=relation, interval=1.1 * excess * interval)


def _interval_for(stages: Sequence[Counts], *, relation: Relation, finest: float) -> float:
    events = {event for stage in stages for event in stage}
    ranges = [loss_range(event, relation=relation) for event in events]
    fitting = (interval for interval in _INTERVALS if len(events) == 1 or sum(ranges) / interval <= _POINTS_TOGETHER)
    return max(finest, next(fitting, _INTERVALS[-1]), max(ranges) / _MOST_POINTS)
