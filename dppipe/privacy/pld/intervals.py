"""The interval of the grid on which a composition is computed.

It is 1e-4 wide for a constant schedule or a few events, and at most 1e-3 for many noise
multipliers. It widens only where distributions would not fit in memory, and narrows where losses
are mostly smaller than it. Every interval gives an upper bound; this choice decides how close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dppipe.privacy.pld.distributions import Losses, event_losses, loss_range
from dppipe.privacy.pld.windows import Windows

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation
    from dppipe.privacy.pld.grid import LossPmf

    Counts = Mapping[DpEvent, int]

_INTERVALS = (1e-4, 2e-4, 5e-4, 1e-3)
_POINTS_TOGETHER = 300_000
"""Grid points of all distributions together up to which a finer interval is taken: a second."""
_MOST_POINTS = 1 << 18
_MOST_COMPOSED = 1 << 21
_LEAST_VARIANCE = 16.0
"""Of a loss, in squared intervals: with less, the grid adds some percent to it, or more."""
_MOST_NARROWED = 150_000
"""Grid points up to which the grid is narrowed: a few tenths of a second."""
_NARROWEST = 1e-6
"""The narrowest interval that the grid is narrowed to."""
_ROUNDED_UP = 2.0**-40
"""Limits how narrow a grid is for many events: rounding an event's probabilities up adds a
fraction of this over the interval."""


def losses_on_grid(
    stages: Sequence[Counts], *, relation: Relation, finest: float
) -> tuple[dict[DpEvent, Losses], float]:
    """Return each event's distribution, on a grid where the composition fits in memory too."""
    counts: dict[DpEvent, int] = {}
    for stage in stages:
        for event, count in stage.items():
            counts[event] = counts.get(event, 0) + count
    if not counts:
        return {}, finest
    interval = starting_interval_for(counts, relation=relation, finest=finest)
    narrowest = max(_NARROWEST, _ROUNDED_UP * sum(counts.values()))
    while True:
        made: dict[DpEvent, Losses] = {}
        for event in counts:
            made[event] = event_losses(event, relation=relation, interval=interval)
        sums = _windows(counts, made)
        longest = max(windows.length for windows in sums)
        if longest > _MOST_COMPOSED:
            interval *= 1.1 * longest / _MOST_COMPOSED
        elif interval / 4 >= narrowest and _narrower_is_better(counts, made, sums, longest):
            interval /= 4
        else:
            return made, interval


def _windows(counts: Counts, made: Mapping[DpEvent, Losses]) -> list[Windows]:
    """Return the window of the whole sum in each direction."""
    whole = {made[event]: count for event, count in counts.items()}
    return [Windows(one_direction(whole, direction)) for direction in (0, 1)]


def _narrower_is_better(
    counts: Counts, made: Mapping[DpEvent, Losses], sums: Sequence[Windows], longest: int
) -> bool:
    """Whether losses are mostly smaller than the interval, and a narrower grid is cheap."""
    if not all(losses.closed for losses in made.values()):
        return False
    points = max(longest, sum(losses.points for losses in made.values()))
    variance = max(windows.variance for windows in sums) / sum(counts.values())
    return variance < _LEAST_VARIANCE and 4 * points <= _MOST_NARROWED


def starting_interval_for(counts: Counts, *, relation: Relation, finest: float) -> float:
    """Return the interval that is tried first, from the ranges of the events' losses."""
    ranges = [loss_range(event, relation=relation) for event in counts]
    chosen = _INTERVALS[-1]
    for interval in _INTERVALS:
        if len(counts) == 1 or sum(ranges) / interval <= _POINTS_TOGETHER:
            chosen = interval
            break
    return max(finest, chosen, max(ranges) / _MOST_POINTS)


def one_direction(stage: Mapping[Losses, int], direction: int) -> dict[LossPmf, int]:
    """Return one direction of a stage; an event whose directions are alike has but one."""
    found: dict[LossPmf, int] = {}
    for losses, count in stage.items():
        found[losses.pmfs[min(direction, len(losses.pmfs) - 1)]] = count
    return found
