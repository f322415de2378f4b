"""tCDP: truncated concentrated differential privacy, which sampling does amplify."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts


class Tcdp(Accountant, kind="tcdp"):
    """Adds up rho at each of many limits omega, and takes the best limit at the end.

    Guarantee: (rho, omega)-tCDP bounds Renyi divergences by rho times the order up to omega, so at
    each omega rho adds up (Bun, Dwork, Rothblum and Steinke 2018). The rho of a Poisson-sampled
    step is computed from its exact divergences, not from the theorem's factor of 13; it holds under
    zero_out and add_remove.
    """

    distinct: ClassVar[int | None] = 100

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.events.coarsening import coarsened
        from dppipe.privacy.rdp.concentrated import (
            ConcentratedCurve,
            TruncatedCurve,
            release_rho,
            sampled_rhos,
        )

        rounded, _ = coarsened(stages, distinct=self.distinct)
        made: list[Composition] = []
        whole = 0.0
        sampled = TruncatedCurve.zero()
        unlimited = True
        for stage in rounded:
            for event, count in stage.items():
                rho = release_rho(event, relation=relation)
                unlimited = unlimited and rho is not None
                whole += count * (rho or 0.0)
                sampled = sampled.plus(sampled_rhos(event, relation=relation), count)
            curve = ConcentratedCurve(whole) if unlimited else sampled
            made.append(Certificate(self.kind, relation, curve))
        return made
