"""A bound that may fail, with a small probability that is set aside from delta.

What is done is within that probability of what the accountant bounds. So it is a post-processing of
two releases side by side: the accounted one, and one that reveals everything with that probability
and nothing otherwise; and delta adds up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import InstanceOf

from dppipe.privacy.accountants.base import Accountant, Composition, PrivacyCurve
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps


def with_failure(accountant: Accountant, probability: float) -> Accountant:
    """Return an accountant that sets this much of every delta aside.

    Guarantee: what it certifies holds for a run that does the accounted events but with this
    probability, over all its steps.
    """
    if not probability:
        return accountant
    return WithFailure(accountant=accountant, probability=probability)


class WithFailure(Accountant):
    """An accountant whose events may fail."""

    accountant: InstanceOf[Accountant]
    probability: float

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Bound the stages, and move each curve by the probability."""
        moved: list[Composition] = []
        for found in self.accountant.compositions(stages, relation=relation):
            moved.append(replace(found, curve=FailureCurve(found.curve, self.probability)))
        return moved

    def rounding_cost(self, steps: Steps, *, delta: float, relation: Relation) -> float:
        """Bound what rounding adds at what is left of this delta."""
        return self.accountant.rounding_cost(
            steps, delta=delta - self.probability, relation=relation
        )

    def spending(
        self,
        steps: Steps,
        at: Sequence[int],
        *,
        delta: float,
        relation: Relation,
        before: Steps = (),
        rounding: bool = True,
    ) -> list[tuple[int, float]]:
        """Return epsilon along the steps, at what is left of this delta."""
        left = delta - self.probability
        if left <= 0:
            return [(done, math.inf) for done in at]
        return self.accountant.spending(
            steps, at, delta=left, relation=relation, before=before, rounding=rounding
        )

    def rough(self) -> Accountant:
        """Return the cheaper accountant with the same failure."""
        return with_failure(self.accountant.rough(), self.probability)


@dataclass(frozen=True)
class FailureCurve:
    """A privacy curve plus a probability of no privacy at all."""

    curve: PrivacyCurve
    probability: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at what is left of this delta."""
        if delta <= self.probability:
            return math.inf
        return self.curve.epsilon(delta - self.probability)

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon, the failure included."""
        return self.curve.delta(epsilon) + self.probability

    def parameters(self) -> dict[str, Any]:
        """Return what the curve was computed from."""
        return {**self.curve.parameters(), "failure_delta": self.probability}
