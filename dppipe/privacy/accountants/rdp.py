"""RDP: Renyi differential privacy, the moments accountant; fast, and the one whose filter allows adaptive noise."""

from __future__ import annotations

from dppipe.privacy.accountants.base import Accountant, Certificate, Steps
from dppipe.privacy.budget import Relation


class Rdp(Accountant, kind="rdp"):
    """Adds Renyi divergences over a grid of orders and takes the best order at the end.

    Guarantee: Renyi divergences of the steps add up at every order (Mironov 2017, proposition 1) and convert to (epsilon,
    delta) by Canonne, Kamath and Steinke (2020, proposition 12). Poisson sampling is bounded as in Mironov, Talwar and Zhang
    (2019), under zero_out and add_remove; sampling without replacement as in Wang, Balle and Kasiviswanathan (2019), under
    replace_one. Under replace_one the sensitivity is doubled here, as a noise multiplier is stated for one record's presence.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Certificate:
        from dppipe.privacy.divergences import RenyiCurve, divergences
        from dppipe.privacy.steps import merge

        counts = merge(steps)
        curve = RenyiCurve.sum((divergences(event, relation=relation), count) for event, count in counts.items())
        return Certificate(self.kind, relation, curve)
