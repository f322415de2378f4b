"""Steps composed by the textbook theorems.

Delta is divided between the steps and the theorem's slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.coarsening import coarsened
from dppipe.privacy.events.sequences import cumulative
from dppipe.privacy.textbook.one_step import is_pure, step_epsilon
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


def textbook_curves(
    stages: Sequence[Counts], *, relation: Relation, advanced: bool, distinct: int | None
) -> Iterator[TextbookCurve]:
    """Yield the privacy curve after each stage.

    Steps without an (epsilon, delta) of their own are refused.
    """
    rounded, _ = coarsened(stages, distinct=distinct)
    for counts in cumulative(rounded):
        for event in counts:
            step_epsilon(event, delta=1e-6, relation=relation)
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
            return 0.0 if all(is_pure(event) for event, _ in self.counts) else _SMALLEST
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
        impure = sum(count for event, count in self.counts if not is_pure(event))
        yield basic_epsilon(self._epsilons(delta / impure if impure else delta))
        if not self.advanced:
            return
        for slack in _SHARES if impure else (1.0,):
            each = (1 - slack) * delta / impure if impure else 0.0
            epsilons = self._epsilons(each)
            yield advanced_epsilon(epsilons, slack=slack * delta)
            steps = sum(count for _, count in epsilons)
            largest = max(epsilon for epsilon, _ in epsilons)
            yield optimal_epsilon(largest, delta=each, count=steps, total_delta=delta)

    def _epsilons(self, delta: float) -> Epsilons:
        found: list[tuple[float, int]] = []
        for event, count in self.counts:
            found.append((step_epsilon(event, delta=delta, relation=self.relation), count))
        return found
