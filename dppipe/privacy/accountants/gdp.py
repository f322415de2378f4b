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
    inner = getattr(event, "event", event)
    sampled = type(event).__name__ == "PoissonSampledDpEvent" and relation != "replace_one"
    if type(inner).__name__ != "GaussianDpEvent" or not (sampled or inner is event):
        raise PrivacyRefusal(
            "accountant gdp: expected Gaussian noise, with Poisson sampling or none, got "
            f"{type(event).__name__} under "
            f"{relation}. Take accountant: pld."
        )
    precision = float(inner.noise_multiplier) ** -2
    if not sampled:
        return precision
    return float(event.sampling_probability**2 * math.expm1(min(precision, 700.0)))
