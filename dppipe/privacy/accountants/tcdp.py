"""tCDP: truncated concentrated differential privacy, which sampling does amplify."""

from __future__ import annotations

from dppipe.privacy.accountants.base import Accountant, Certificate, Steps
from dppipe.privacy.budget import Relation


class Tcdp(Accountant, kind="tcdp"):
    """Adds up rho at each of many limits omega, and takes the best limit at the end.

    Guarantee: (rho, omega)-tCDP bounds Renyi divergences by rho times the order up to omega, so at each omega rho adds up
    (Bun, Dwork, Rothblum and Steinke 2018). The rho of a Poisson-sampled step is computed from its exact divergences, not
    from the theorem's factor of 13; it holds under zero_out and add_remove.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Certificate:
        import numpy

        from dppipe.privacy.coarsening import coarsened
        from dppipe.privacy.concentrated import LIMITS, ConcentratedCurve, TruncatedCurve, release_rho, sampled_rhos
        from dppipe.privacy.steps import merge

        (counts,), _ = coarsened([merge(steps)], distinct=_DISTINCT)
        whole = [(release_rho(event, relation=relation), count) for event, count in counts.items()]
        if all(rho is not None for rho, _ in whole):
            return Certificate(self.kind, relation, ConcentratedCurve(sum(count * (rho or 0.0) for rho, count in whole)))
        total = numpy.zeros(len(LIMITS))
        for event, count in counts.items():
            total = total + count * sampled_rhos(event, relation=relation)
        return Certificate(self.kind, relation, TruncatedCurve(total))


_DISTINCT = 100
"""A schedule of more distinct events is rounded onto as many."""
