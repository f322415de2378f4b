"""Releases about disjoint sets of records: each person pays for one of them, so the larger cost is
the claim.

Let one mechanism see the records A and release y, and another see the records B and y. A person in
A changes what the first one sees; the second only processes y. A person in B leaves y as it is. So
at each delta both together cost the larger of the two epsilons (McSherry 2009, parallel
composition), as long as no person has records in both sets. Under `replace_one` a record must stay
in its set besides: one that moves from A to B would change what both mechanisms see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import InstanceOf

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import (
    Accountant,
    Certificate,
    Composition,
    Estimate,
    PrivacyCurve,
)
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps


def with_disjoint(accountant: Accountant, other: Composition) -> Accountant:
    """Return an accountant that never bounds a run by less than `other` costs.

    Guarantee: what it certifies of some steps holds for these steps and `other` together, if they
    are about disjoint records.
    """
    return WithDisjoint(accountant=accountant, other=other)


class WithDisjoint(Accountant):
    """An accountant of runs that start from a release about other records."""

    accountant: InstanceOf[Accountant]
    other: Any

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Bound each stage by the larger of its own cost and the other release's."""
        self._refuse_other(relation)
        found = self.accountant.compositions(stages, relation=relation)
        return [_larger(composition, self.other) for composition in found]

    def _refuse_other(self, relation: Relation) -> None:
        if relation != self.other.relation:
            known = f"expected {self.other.relation}, as the other release has"
            raise PrivacyRefusal(f"relation: {known}, got {relation}.")

    def rounding_cost(self, steps: Steps, *, delta: float, relation: Relation) -> float:
        """Bound what rounding adds to the steps' own cost."""
        return self.accountant.rounding_cost(steps, delta=delta, relation=relation)

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
        """Return epsilon along the steps, but never less than the other release's."""
        self._refuse_other(relation)
        least = self.other.epsilon(delta)
        own = self.accountant.spending(
            steps, at, delta=delta, relation=relation, before=before, rounding=rounding
        )
        return [(done, max(epsilon, least)) for done, epsilon in own]

    def rough(self) -> Accountant:
        """Return the cheaper accountant with the same other release."""
        return with_disjoint(self.accountant.rough(), self.other)


def disjoint_epsilon(epsilons: Sequence[float]) -> float:
    """Return what mechanisms on disjoint records cost together at the delta that each has.

    Guarantee: the largest epsilon, if no person has records in two of the sets and none moves from
    one to another.
    """
    return max(epsilons)


@dataclass(frozen=True)
class LargerCurve:
    """The larger of two privacy curves at every point."""

    own: PrivacyCurve
    other: PrivacyCurve

    def epsilon(self, delta: float) -> float:
        """Return the larger epsilon at this delta."""
        return max(self.own.epsilon(delta), self.other.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return the larger delta at this epsilon."""
        return max(self.own.delta(epsilon), self.other.delta(epsilon))

    def parameters(self) -> dict[str, Any]:
        """Return what both curves were computed from."""
        return {**self.own.parameters(), "disjoint": self.other.parameters()}


def _larger(own: Composition, other: Composition) -> Composition:
    certified = own.certified and other.certified
    made = Certificate if certified else Estimate
    return made(own.accountant, own.relation, LargerCurve(own.curve, other.curve))
