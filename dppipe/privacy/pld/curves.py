"""From counted events to privacy curves, by convolving their loss distributions.

Guarantee: every choice made here (grid, rounding, exposed events) keeps the result an upper bound
(`PROOF.md`, theorem).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.pld.convolution import convolved
from dppipe.privacy.pld.distributions import Losses, exposure
from dppipe.privacy.pld.intervals import losses_on_grid, one_direction, starting_interval_for
from dppipe.privacy.pld.profiles import estimated

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation

    Counts = Mapping[DpEvent, int]

_UPWARD = 1 + 2.0**-46
"""More than the rounding of a sum of logarithms of shares, over some tens of stages."""


@dataclass(frozen=True)
class LossCurve:
    """The privacy curve of a composed loss distribution: that of the worse direction."""

    losses: Losses | None
    """None where nothing was released."""
    exposed: float
    """The probability that a release doesn't protect a record at all, which adds to delta."""
    interval: float
    rounding: float
    """The largest factor by which a noise multiplier was rounded down, less 1."""
    certified: bool = True
    """Whether the curve is a proven bound; False where losses come from random draws."""

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon whose delta is at most this; infinite if there is none."""
        left = delta - self.exposed
        if self.losses is None:
            return 0.0 if left >= 0 else math.inf
        return self.losses.epsilon(left)

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon."""
        if self.losses is None:
            return min(1.0, self.exposed)
        return min(1.0, self.exposed + self.losses.delta(epsilon))

    def parameters(self) -> dict[str, Any]:
        """Return the grid and the rounding that are part of the bound."""
        if self.losses is None:
            return {}
        return {"interval": self.interval, "noise_rounded_down_by": self.rounding}


def loss_curves(
    stages: Sequence[Counts], *, relation: Relation, distinct: int | None, finest: float = 1e-4
) -> Iterator[LossCurve]:
    """Yield the privacy curve after each stage; a stage adds its events to all those before it.

    Args:
        stages: Events and how many times each is done, in parts.
        relation: What neighbouring datasets differ in.
        distinct: The most distinct events to compose; others are rounded onto them.
        finest: The finest interval of the grid to start with.
    """
    rounded, rounding = coarsened(stages, distinct=distinct)
    exposures: dict[DpEvent, float] = {}
    for stage in rounded:
        for event in stage:
            exposures[event] = exposure(event, relation=relation)
    certified = not any(estimated(event, relation=relation) for event in exposures)
    protected = [_protected(stage, exposures) for stage in rounded]
    made, interval = losses_on_grid(protected, relation=relation, finest=finest)
    log_hidden = 0.0
    composed = _composed(rounded, made, interval)
    for stage, losses in zip(rounded, composed, strict=True):
        log_hidden += math.fsum(
            count * _log_rest(exposures[event]) for event, count in stage.items()
        )
        exposed = min(1.0, -math.expm1(log_hidden) * _UPWARD)
        yield LossCurve(losses, exposed, interval, rounding, certified)


def starting_interval(
    counts: Counts, *, relation: Relation, distinct: int | None, finest: float
) -> float:
    """Return the interval that `loss_curves` starts with; no distribution is made."""
    (rounded,), _ = coarsened([counts], distinct=distinct)
    exposures = {event: exposure(event, relation=relation) for event in rounded}
    protected = _protected(rounded, exposures)
    if not protected:
        return finest
    return starting_interval_for(protected, relation=relation, finest=finest)


def _protected(stage: Counts, exposures: Mapping[DpEvent, float]) -> Counts:
    """Return the events whose losses fit on a grid."""
    return {event: count for event, count in stage.items() if not exposures[event]}


def _log_rest(share: float) -> float:
    return math.log1p(-share) if share < 1 else -math.inf


def _composed(
    stages: Sequence[Counts], made: Mapping[DpEvent, Losses], interval: float
) -> Iterator[Losses | None]:
    """Compose after each stage, each direction by itself; None while nothing was composed."""
    known = []
    for stage in stages:
        known.append({made[event]: count for event, count in stage.items() if event in made})
    directions = max((len(losses.pmfs) for losses in made.values()), default=0)
    sums = []
    for direction in range(directions):
        sums.append(convolved([one_direction(stage, direction) for stage in known]))
    done = False
    for stage, *pmfs in zip(known, *sums, strict=True):
        done = done or bool(stage)
        yield Losses(tuple(pmfs), interval) if done else None
