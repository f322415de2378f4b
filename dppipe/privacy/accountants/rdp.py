"""RDP: Renyi differential privacy, the moments accountant.

It is fast, and its filter allows adaptive noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts


class Rdp(Accountant, kind="rdp"):
    """Adds Renyi divergences over a grid of orders and takes the best order at the end.

    Guarantee: Renyi divergences of the steps add up at every order (Mironov 2017, proposition 1)
    and convert to (epsilon, delta) by Canonne, Kamath and Steinke (2020, proposition 12). Poisson
    sampling is bounded as in Mironov, Talwar and Zhang (2019), under zero_out and add_remove;
    sampling without replacement as in Wang, Balle and Kasiviswanathan (2019), under replace_one.
    Under replace_one the sensitivity is doubled here, as a noise multiplier is stated for one
    record's presence.
    """

    distinct: ClassVar[int | None] = 150
    _stride: ClassVar[int] = 1
    """The stride through the list of lower orders; 1 takes all of them."""

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.events.coarsening import coarsened
        from dppipe.privacy.rdp.curve import RenyiCurve
        from dppipe.privacy.rdp.divergences import ORDERS, divergences

        rounded, _ = coarsened(stages, distinct=self.distinct)
        # The highest orders matter where little is spent, so all of them are kept.
        orders = (*ORDERS[: -4 : self._stride], *ORDERS[-4:])
        total = RenyiCurve.zero(orders)
        made: list[Composition] = []
        for stage in rounded:
            for event, count in stage.items():
                total = total.plus(divergences(event, relation=relation, orders=orders), count)
            made.append(Certificate(self.kind, relation, total))
        return made

    def rough(self) -> Accountant:
        return _RoughRdp()


class _RoughRdp(Rdp):
    """The same with few distinct events and orders, from which a search starts.

    It is a bound too, a few percent looser.
    """

    distinct: ClassVar[int | None] = 12
    _stride: ClassVar[int] = 6
