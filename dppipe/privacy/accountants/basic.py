"""Basic composition: epsilons add up, deltas add up."""

from __future__ import annotations

from dppipe.privacy.accountants.base import Accountant, Certificate, Steps
from dppipe.privacy.budget import Relation


class Basic(Accountant, kind="basic"):
    """Adds up the epsilon of every step, each at an equal share of delta.

    Guarantee: Dwork et al. (2006), for any mechanisms that are (epsilon, delta)-differentially private; loose. Poisson
    sampling amplifies each step to ln(1 + q (e^epsilon - 1)) and q delta, under zero_out and add_remove.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Certificate:
        from dppipe.privacy.textbook import TextbookCurve

        return Certificate(self.kind, relation, TextbookCurve.of(steps, relation=relation, advanced=False))
