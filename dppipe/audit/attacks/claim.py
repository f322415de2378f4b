"""What a run's certificate leaves to any attacker, whatever the attack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError
from dppipe.privacy.accountants.base import require_certificate
from dppipe.privacy.tradeoff.blow_up import BlowUp, blow_up_of
from dppipe.privacy.tradeoff.one_point import OnePoint
from dppipe.runs.files import read_plan
from dppipe.runs.verification.certificate import certificate_of_run

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import Certificate
    from dppipe.runs.directory import RunDirectory

SHOWN_RATES = (0.001, 0.01, 0.1)
"""The false-positive rates at which a report states what an attack reaches."""


@dataclass(frozen=True)
class Claim:
    """The claim of a run, as bounds on attacks against one unit.

    Guarantee: a true-positive rate is at most `blow_up` of the false-positive rate (Dong, Roth and
    Su 2022), their difference at most `advantage`, and who would hit with probability k without
    the unit's influence hits with at most `blow_up(k)` (Balle, Cherubin and Hayes 2022). B is
    concave, so the rates over many units obey it too.
    """

    certificate: Certificate
    epsilon: float
    delta: float
    relation: str
    unit: str

    @cached_property
    def blow_up(self) -> BlowUp:
        """The bound B that follows from the whole curve."""
        return blow_up_of(self.certificate.curve)

    @cached_property
    def one_point(self) -> BlowUp:
        """The bound that follows from the one (epsilon, delta) alone: far weaker."""
        return blow_up_of(OnePoint(self.epsilon, self.delta))

    @property
    def advantage(self) -> float:
        """The largest difference between the two rates: delta at epsilon 0."""
        return float(self.certificate.delta(0.0))

    def to_data(self) -> dict[str, Any]:
        """Return the claim and what follows from it as plain data."""
        rates = {f"{rate:g}": float(self.blow_up(rate)) for rate in SHOWN_RATES}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation,
            "unit": self.unit,
            "most_true_positives_at": rates,
            "most_advantage": self.advantage,
        }


def claim_of_run(run: RunDirectory) -> Claim:
    """Return the claim of a private run; a run without a budget is refused."""
    plan = read_plan(run)
    if not plan.private or plan.epsilon is None or plan.delta is None or plan.relation is None:
        raise UsageError(
            f"{run.path}: expected a private run, got one without a budget, which claims nothing. "
            "Attack the private run, and name this one by --twin."
        )
    certificate = require_certificate(certificate_of_run(run))
    return Claim(certificate, plan.epsilon, plan.delta, plan.relation, plan.unit)
