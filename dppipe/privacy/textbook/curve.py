"""Steps composed by the textbook theorems.

Delta is divided between the steps and the theorem's slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule
from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.events.sequences import cumulative
from dppipe.privacy.textbook.one_step import own_delta, step_epsilon
from dppipe.privacy.textbook.theorems import (
    Epsilons,
    advanced_epsilon,
    basic_epsilon,
    optimal_epsilon,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.events.sequences import Counts

_SHARES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""The shares of delta that are tried as the slack of advanced composition; each gives a bound."""
_SMALLEST = 1e-250
_UPWARD = 1 + 2.0**-50
"""More than the rounding of a sum of products."""


def textbook_curves(
    stages: Sequence[Counts], *, relation: Relation, advanced: bool, distinct: int | None
) -> Iterator[TextbookCurve]:
    """Yield the privacy curve after each stage.

    Steps without an (epsilon, delta) of their own are refused.
    """
    kind = "advanced" if advanced else "basic"
    rounded, _ = coarsened(stages, distinct=distinct)
    for counts in cumulative(rounded):
        for event in counts:
            proven_rule(kind, event, relation=relation)
        yield TextbookCurve(tuple(counts.items()), relation, advanced)


@dataclass(frozen=True)
class TextbookCurve:
    """The privacy curve of steps that are known only as (epsilon, delta) mechanisms."""

    counts: tuple[tuple[DpEvent, int], ...]
    relation: Relation
    advanced: bool

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that a theorem allows at this delta."""
        return min(self._bounds(delta), default=0.0)

    def delta(self, epsilon: float) -> float:
        """Find the smallest delta whose epsilon is at most this, by bisection from above."""
        if self.epsilon(_SMALLEST) <= epsilon:
            pure = all(own_delta(event) == 0 for event, _ in self.counts)
            return 0.0 if pure else _SMALLEST
        low = math.log(_SMALLEST)
        high = 0.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            if self.epsilon(math.exp(middle)) <= epsilon:
                high = middle
            else:
                low = middle
        return math.exp(high)

    def parameters(self) -> dict[str, Any]:
        """Return the number of steps that were composed."""
        return {"steps": sum(count for _, count in self.counts)}

    def _bounds(self, delta: float) -> Iterator[float]:
        if not self.counts:
            return
        choosing, own, largest_own = self._own_deltas()
        left = delta - own
        if left < 0 or (choosing and left == 0):
            yield math.inf
            return
        yield basic_epsilon(self._epsilons(left / choosing if choosing else left))
        if not self.advanced or left == 0:
            return
        for slack in _SHARES if choosing else (1.0,):
            each = (1 - slack) * left / choosing if choosing else 0.0
            epsilons = self._epsilons(each)
            yield advanced_epsilon(epsilons, slack=slack * left)
            steps = sum(count for _, count in epsilons)
            largest = max(epsilon for epsilon, _ in epsilons)
            each = max(each, largest_own)
            yield optimal_epsilon(largest, delta=each, count=steps, total_delta=delta)

    def _own_deltas(self) -> tuple[int, float, float]:
        """Return how many steps take any delta, and the sum and the largest of the others' own."""
        choosing = 0
        deltas: list[float] = []
        largest = 0.0
        for event, count in self.counts:
            own = own_delta(event)
            if own is None:
                choosing += count
            else:
                deltas.append(count * own)
                largest = max(largest, own)
        return choosing, math.fsum(deltas) * _UPWARD, largest

    def _epsilons(self, delta: float) -> Epsilons:
        found: list[tuple[float, int]] = []
        for event, count in self.counts:
            found.append((step_epsilon(event, delta=delta, relation=self.relation), count))
        return found
