"""GDP: Gaussian differential privacy; exact without sampling, a central-limit estimate with it."""

from __future__ import annotations

import math

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Certificate, Composition, Estimate, Steps
from dppipe.privacy.budget import Relation


class Gdp(Accountant, kind="gdp"):
    """Adds up mu squared over the steps.

    Guarantee: Gaussian releases on the whole data set compose exactly (Dong, Roth and Su 2019), which is
    certified. With Poisson sampling mu = q sqrt(T (e^(1/z^2) - 1)) is the limit of many small steps (Bu et al. 2020): an
    estimate that can lie well below the truth, and never a certificate.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Composition:
        from dppipe.privacy.gaussian import GaussianCurve
        from dppipe.privacy.steps import gaussian_precision, merge

        counts = merge(steps)
        precision = gaussian_precision(counts, relation=relation)
        if precision is not None:
            return Certificate(self.kind, relation, GaussianCurve(math.sqrt(precision)))
        squares = []
        for event, count in counts.items():
            inner, rate = getattr(event, "event", event), getattr(event, "sampling_probability", 1.0)
            sampled = type(event).__name__ == "PoissonSampledDpEvent" and relation != "replace_one"
            if type(inner).__name__ != "GaussianDpEvent" or not (sampled or inner is event):
                raise PrivacyRefusal(
                    f"accountant gdp: expected Gaussian noise, with Poisson sampling or none, got {type(event).__name__} of "
                    f"{type(inner).__name__} under {relation}. Take accountant: pld."
                )
            precision = inner.noise_multiplier**-2
            squares.append(count * (rate**2 * math.expm1(min(precision, 700.0)) if sampled else precision))
        return Estimate(self.kind, relation, GaussianCurve(math.sqrt(math.fsum(squares))))
