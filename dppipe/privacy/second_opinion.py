"""A second opinion on epsilon: the same events, composed by dp_accounting's own PLD.

It shares no code with `dppipe.privacy.pld`; only the events and, for very long schedules, the
rounding of noise multipliers are dppipe's. dp_accounting rounds losses up onto a grid, so its
epsilon lies above the truth by a discretisation error. That error is stated here, by comparison
with a grid four times as coarse: it at least doubles there, since it grows with the interval (as
its square for fine grids, as its square root for grids wider than the losses).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Composition, Estimate
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import rule_of
from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.events.sequences import Counts, cumulative
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_INTERVALS = tuple(4e-3 / 4**power for power in range(5))
"""The grids, each four times as fine as the one before it."""
_CLOSE_ENOUGH = 1e-3
"""A finer grid is taken until the error, relative to epsilon, is at most this, or until the
rounding of a long schedule adds more."""
_DISTINCT = 50
"""The most distinct events to compose: dp_accounting takes up to a second for each."""
_TAILS = 1e-12
"""What delta may be off by: tails that dp_accounting cuts off, and the round-off of its FFT."""
_ROUND_OFF = 1e-9
"""Relative, on epsilon."""
_LARGEST = 600.0
"""The largest epsilon to compare: beyond, e^-loss underflows in dp_accounting's sums."""
_WIDE = 100.0
"""A range of losses beyond which the grid widens in proportion, to keep it in memory."""


@dataclass(frozen=True)
class SecondOpinion:
    """An epsilon by dp_accounting's PLD, and how far it may lie above the truth."""

    epsilon: float | None
    """None where dp_accounting has no answer."""
    error: float | None
    why: str = ""
    """Why there is no answer."""

    def contradicts(self, epsilon: float) -> bool:
        """Whether the truth lies above this epsilon, if the stated error holds."""
        if self.epsilon is None or self.error is None:
            return False
        return self.epsilon - self.error > epsilon

    def to_data(self, *, ours: float | None, certified: bool) -> dict[str, Any]:
        """Return plain data: both epsilons with their errors, and whether they contradict."""
        return {
            "by": "dp_accounting",
            "epsilon": None if self.epsilon is None else round_up(self.epsilon, 6),
            "error": None if self.error is None else round_up(self.error, 3),
            "ours": None if ours is None or not math.isfinite(ours) else round_up(ours, 6),
            "ours_below_truth_by_at_most": 0.0 if certified else None,
            "contradicts": certified and ours is not None and self.contradicts(ours),
            "why": self.why or None,
        }


def second_opinion(epsilon_by: Callable[[Accountant], float]) -> SecondOpinion:
    """Ask dp_accounting's PLD for an epsilon.

    Args:
        epsilon_by: Returns the epsilon of the events in question by the accountant it is given.
    """
    try:
        return _refined(epsilon_by)
    except PrivacyRefusal as refusal:
        return SecondOpinion(None, None, str(refusal))


def _refined(epsilon_by: Callable[[Accountant], float]) -> SecondOpinion:
    """Take finer grids until the error is small; the last one is stated with its error."""
    coarse = epsilon_by(DpAccountingPld())
    if coarse > _LARGEST:
        raise PrivacyRefusal(f"dp_accounting's PLD finds no epsilon below {_LARGEST:g}")
    spread = coarse - epsilon_by(DpAccountingPld(lowest=True))
    for interval in _INTERVALS[1:]:
        fine = epsilon_by(DpAccountingPld(interval=interval))
        moved = coarse - fine
        coarse = fine
        if moved <= max(_CLOSE_ENOUGH * fine, spread):
            break
    return SecondOpinion(fine, moved + spread + _ROUND_OFF * fine)


class DpAccountingPld(Accountant):
    """dp_accounting's own PLD as an accountant; not a kind that a spec can name."""

    interval: float = _INTERVALS[0]
    lowest: bool = False
    """Whether to return the low end: noise rounded up, and no tails counted."""

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Compose each stage with all those before it."""
        rounded, _ = coarsened(stages, distinct=_DISTINCT, up=self.lowest)
        found: list[Composition] = []
        for counts in cumulative(rounded):
            curve = _composed(tuple(counts.items()), relation, self.interval)
            shifted = _Curve(curve, _TAILS if self.lowest else 0.0)
            found.append(Estimate("dp_accounting", relation, shifted))
        return found


@dataclass(frozen=True)
class _Curve:
    """The privacy curve of a `PLDAccountant`, with delta moved up by `tails`."""

    theirs: Any
    tails: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta."""
        return float(self.theirs.get_epsilon(min(delta + self.tails, 1.0)))

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon."""
        return max(0.0, float(self.theirs.get_delta(epsilon)) - self.tails)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: this curve is never part of a statement."""
        return {}


@functools.lru_cache(maxsize=16)
def _composed(counts: tuple[tuple[DpEvent, int], ...], relation: Relation, interval: float) -> Any:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    relations = {
        "zero_out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
        "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }
    widest = max((_width(event, count, relation) for event, count in counts), default=0.0)
    theirs = PLDAccountant(relations[relation], interval * max(1.0, widest / _WIDE))
    for event, count in counts:
        if not theirs.supports(event):
            raise PrivacyRefusal(
                f"dp_accounting's PLD has no bound for {type(event).__name__} under {relation}"
            )
        try:
            theirs.compose(event, count)
        except (ValueError, OverflowError, MemoryError) as error:
            raise PrivacyRefusal(f"dp_accounting's PLD can't compose {event}: {error}") from error
    return theirs


def _width(event: DpEvent, count: int, relation: Relation) -> float:
    """Return roughly the largest loss that dp_accounting puts on its grid for one event."""
    rule = rule_of(event)
    if rule.their_reach is not None:
        return rule.their_reach(event, relation, count)
    return 0.0 if rule.reach is None else rule.reach(event, relation)
