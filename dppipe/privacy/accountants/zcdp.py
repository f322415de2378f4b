"""zCDP: zero-concentrated differential privacy, for runs without sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class Zcdp(Accountant, kind="zcdp"):
    """Adds up rho over the steps.

    Guarantee: rho adds up under composition, adaptive or not (Bun and Steinke 2016). It is not
    amplified by sampling: the popular q^2 rho is exceeded, badly so at little noise. So a sampled
    step is refused.
    """

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.rdp.concentrated import ConcentratedCurve

        made: list[Composition] = []
        spent = 0.0
        for stage in stages:
            spent += math.fsum(count * _rho(event, relation) for event, count in stage.items())
            made.append(Certificate(self.kind, relation, ConcentratedCurve(spent)))
        return made


def _rho(event: DpEvent, relation: Relation) -> float:
    from dppipe.privacy.events.base import proven_rule
    from dppipe.privacy.rdp.concentrated import release_rho

    rho = release_rho(event, relation=relation)
    if rho is None:
        rule = proven_rule("zcdp", event, relation=relation)
        raise PrivacyRefusal(f"accountant zcdp: expected the rho of {rule.name}, got none.")
    return rho
