"""From counted events to privacy curves by their loss distributions, which dp_accounting composes.

The grid is 1e-4 wide for a constant schedule or a few events and at most 1e-3 for one of many noise multipliers; it widens only
where distributions would not fit in memory. Every choice here keeps the result an upper bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dppipe.privacy.coarsening import coarsened
from dppipe.privacy.losses import Losses, event_losses, exposure, loss_range

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation

    Counts = Mapping[DpEvent, int]

_INTERVALS = (1e-4, 2e-4, 5e-4, 1e-3)
_POINTS_TOGETHER = 150_000
"""Grid points of all distributions together up to which a finer interval is taken."""
_MOST_POINTS = 1 << 18
_MOST_COMPOSED = 1 << 21
_AT_ONCE = 4096
_ROUND_OFF = 2.0**-51
"""Of float64 transforms, for each step: a smaller delta is said by nothing."""
_SLIP = 2.0**-58
"""For each step: more than the transforms were seen to take from a delta that is well above that."""


@dataclass(frozen=True)
class LossCurve:
    """The privacy curve of a composed loss distribution: the worse of its directions."""

    losses: Any
    """dp_accounting's `PrivacyLossDistribution`; None where nothing was released."""
    steps: int
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
        left -= self.steps * _SLIP
        if left <= self.steps * _ROUND_OFF:
            return math.inf
        if self.losses.get_delta_for_epsilon(0.0) <= left:
            return 0.0  # looked at first: the library's search overflows among losses far below 0
        with np.errstate(over="ignore"):  # an epsilon beyond float64's range is infinite
            return float(self.losses.get_epsilon_for_delta(left))

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        if self.losses is None:
            return self.exposed
        least = self.steps * _ROUND_OFF
        found = float(self.losses.get_delta_for_epsilon(epsilon)) + self.steps * _SLIP
        return min(1.0, self.exposed + max(least, found))

    def parameters(self) -> dict[str, Any]:
        """Give the grid and the rounding that are part of the bound."""
        return {"interval": self.interval, "noise_rounded_down_by": self.rounding} if self.losses is not None else {}


@functools.lru_cache(maxsize=3)
def remembered_curves(
    stages: tuple[tuple[tuple[DpEvent, int], ...], ...], *, relation: Relation, distinct: int | None, finest: float
) -> tuple[LossCurve, ...]:
    """Give `loss_curves` of what was asked for last without composing again: a plan asks for one composition several times."""
    return tuple(loss_curves([dict(stage) for stage in stages], relation=relation, distinct=distinct, finest=finest))


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
        [{event: count for event, count in stage.items() if not exposures[event]} for stage in rounded],
        relation=relation,
        finest=finest,
    )
    hidden, steps, composed = 0.0, 0, _composed(rounded, made)
    for stage, losses in zip(rounded, composed, strict=True):
        hidden += math.fsum(count * _log_rest(exposures[event]) for event, count in stage.items())
        steps += sum(stage.values())
        yield LossCurve(losses, steps, -math.expm1(hidden), interval, rounding)


def _log_rest(share: float) -> float:
    return math.log1p(-share) if share < 1 else -math.inf


def _composed(stages: Sequence[Counts], made: Mapping[DpEvent, Losses]) -> Iterator[Any]:
    """Compose after each stage: one event that is repeated at once, several stage by stage."""
    whole, done = None, 0
    for stage in stages:
        for event, count in stage.items():
            if event not in made:
                continue
            done += count
            if len(made) == 1:
                whole = _repeated(made[event].distribution, done)
            else:
                part = _repeated(made[event].distribution, count)
                whole = part if whole is None else whole.compose(part)
        yield whole


def _repeated(distribution: Any, count: int) -> Any:
    """Compose a distribution with itself; very many times in rounds, as the library's circle would be far too wide for all."""
    if count <= _AT_ONCE:
        return distribution.self_compose(count)
    rounds, rest = divmod(count, _AT_ONCE // 4)
    whole = _repeated(distribution.self_compose(_AT_ONCE // 4), rounds)
    return whole.compose(distribution.self_compose(rest)) if rest else whole


def _made(stages: Sequence[Counts], *, relation: Relation, finest: float) -> tuple[dict[DpEvent, Losses], float]:
    """Make each event's distribution on a grid on which they and their composition fit in memory."""
    counts: dict[DpEvent, int] = {}
    for stage in stages:
        for event, count in stage.items():
            counts[event] = counts.get(event, 0) + count
    if not counts:
        return {}, finest
    interval = _interval_for(counts, relation=relation, finest=finest)
    while True:
        made = {event: event_losses(event, relation=relation, interval=interval) for event in counts}
        # Where the composed mass lies: 9 standard deviations to each side hold all but 1e-18 of it.
        width = 18 * math.sqrt(math.fsum(count * made[event].variance for event, count in counts.items()))
        # How wide the library's Chernoff bounds are, which it doesn't take at slopes below 1 over the range.
        ranges = {event: losses.points * interval / 2 for event, losses in made.items()}
        width = max(width, *(min(counts[event], _AT_ONCE) * made[event].variance / ranges[event] for event in counts))
        if width / interval <= _MOST_COMPOSED:
            return made, interval
        interval *= 1.1 * width / interval / _MOST_COMPOSED


def _interval_for(counts: Counts, *, relation: Relation, finest: float) -> float:
    ranges = [loss_range(event, relation=relation) for event in counts]
    fitting = (interval for interval in _INTERVALS if len(counts) == 1 or sum(ranges) / interval <= _POINTS_TOGETHER)
    return max(finest, next(fitting, _INTERVALS[-1]), max(ranges) / _MOST_POINTS)
