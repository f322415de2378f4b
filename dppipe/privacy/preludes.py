"""Releases before the first step, such as private statistics.

They are paid for together with the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import InstanceOf

from dppipe.privacy.accountants.base import Accountant, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps, merge


def with_prelude(accountant: Accountant, before: Steps) -> Accountant:
    """Return an accountant to whose every bound these events belong.

    Guarantee: what it certifies of some steps is what the accountant certifies of these events and
    the steps together.
    """
    if not before:
        return accountant
    return WithPrelude(accountant=accountant, before=tuple(before))


class WithPrelude(Accountant):
    """An accountant of runs that begin with something else than steps."""

    accountant: InstanceOf[Accountant]
    before: tuple[Any, ...]

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Bound the stages, with the events before them in the first."""
        if not stages:
            return []
        first = merge([*self.before, *stages[0].items()])
        return self.accountant.compositions([first, *stages[1:]], relation=relation)

    def rounding_cost(self, steps: Steps, *, delta: float, relation: Relation) -> float:
        """Bound what rounding adds to the events before and the steps together."""
        return self.accountant.rounding_cost([*self.before, *steps], delta=delta, relation=relation)

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
        """Return epsilon along the steps, with the events before them."""
        return self.accountant.spending(
            steps,
            at,
            delta=delta,
            relation=relation,
            before=[*self.before, *before],
            rounding=rounding,
        )

    def rough(self) -> Accountant:
        """Return the cheaper accountant with the same events before."""
        return with_prelude(self.accountant.rough(), self.before)
