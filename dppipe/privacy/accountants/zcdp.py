"""zCDP: zero-concentrated differential privacy, for runs without sampling."""

from __future__ import annotations

import math

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants.base import Accountant, Certificate, Steps
from dppipe.privacy.budget import Relation


class Zcdp(Accountant, kind="zcdp"):
    """Adds up rho over the steps.

    Guarantee: rho adds up under composition, adaptive or not (Bun and Steinke 2016). It is not amplified by sampling: the
    popular q^2 rho is exceeded, badly so at little noise. So a sampled step is refused.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Certificate:
        from dppipe.privacy.concentrated import ConcentratedCurve, release_rho
        from dppipe.privacy.steps import merge

        total = []
        for event, count in merge(steps).items():
            rho = release_rho(event, relation=relation)
            if rho is None:
                raise PrivacyRefusal(
                    f"accountant zcdp: expected releases on the whole data set, got {type(event).__name__}: zCDP isn't "
                    "amplified by sampling. Take accountant: pld or rdp, or tcdp, which is."
                )
            total.append(count * rho)
        return Certificate(self.kind, relation, ConcentratedCurve(math.fsum(total)))
