"""Basic composition: epsilons add up, deltas add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts


class Basic(Accountant, kind="basic"):
    """Adds up the epsilon of every step, each at an equal share of delta.

    Guarantee: Dwork et al. (2006), for any mechanisms that are (epsilon, delta)-differentially
    private; loose. Poisson sampling amplifies each step to ln(1 + q (e^epsilon - 1)) and q delta,
    under zero_out and add_remove.
    """

    distinct: ClassVar[int | None] = 100

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.textbook.curve import textbook_curves

        curves = textbook_curves(stages, relation=relation, advanced=False, distinct=self.distinct)
        return [Certificate(self.kind, relation, curve) for curve in curves]
