"""GDP: Gaussian differential privacy; exact without sampling, a central-limit estimate with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Certificate, Composition, Estimate
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class Gdp(Accountant, kind="gdp"):
    """Adds up mu squared over the steps.

    Guarantee: Gaussian releases on the whole dataset compose exactly (Dong, Roth and Su 2019),
    which is certified. With Poisson sampling mu = q sqrt(T (e^(1/z^2) - 1)) is the limit of many
    small steps (Bu et al. 2020): an estimate that can lie well below the truth, and never a
    certificate.
    """

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.events.sequences import cumulative, gaussian_precision
        from dppipe.privacy.gaussian import GaussianCurve

        made: list[Composition] = []
        for counts in cumulative(stages):
            precision = gaussian_precision(counts, relation=relation)
            if precision is not None:
                made.append(Certificate(self.kind, relation, GaussianCurve(math.sqrt(precision))))
            else:
                square = math.fsum(
                    count * _limit_square(event, relation) for event, count in counts.items()
                )
                made.append(Estimate(self.kind, relation, GaussianCurve(math.sqrt(square))))
        return made


def _limit_square(event: DpEvent, relation: Relation) -> float:
    """Return a step's part of mu squared in the central limit."""
    from dppipe.privacy.events.base import proven_rule

    rule = proven_rule("gdp", event, relation=relation)
    if rule.mu_squared is None:
        raise PrivacyRefusal(f"accountant gdp: expected the mu of {rule.name}, got none.")
    return rule.mu_squared(event, relation)
