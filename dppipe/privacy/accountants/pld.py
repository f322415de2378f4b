"""PLD: privacy loss distributions, the tightest certified accountant and the default."""

from __future__ import annotations

from dppipe.privacy.accountants.base import Accountant, Certificate, Steps
from dppipe.privacy.budget import Relation


class Pld(Accountant, kind="pld"):
    """Convolves the privacy loss distributions of all steps.

    Guarantee: each step's distribution is discretised pessimistically (connect-the-dots, Doroshenko et al. 2022), so that
    the composed epsilon is an upper bound for a sequence of events fixed before any record was read.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Certificate:
        from dppipe.privacy.losses import compose_losses
        from dppipe.privacy.steps import merge

        return Certificate(self.kind, relation, compose_losses(merge(steps), relation=relation))
