"""Advanced composition: the smaller bound of two theorems.

They are that of Dwork, Rothblum and Vadhan, and the optimal one of Kairouz, Oh and Viswanath.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts


class Advanced(Accountant, kind="advanced"):
    """Composes the steps as (epsilon, delta) mechanisms and keeps the best of several bounds.

    Guarantee: each share gives a bound, by Dwork, Rothblum and Vadhan (2010) and, for equal steps,
    by Kairouz, Oh and Viswanath (2015); the smallest of several bounds is one. Sampling as for
    basic composition.
    """

    distinct: ClassVar[int | None] = 100

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.textbook.curve import textbook_curves

        curves = textbook_curves(stages, relation=relation, advanced=True, distinct=self.distinct)
        return [Certificate(self.kind, relation, curve) for curve in curves]
