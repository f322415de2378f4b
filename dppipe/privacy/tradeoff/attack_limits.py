"""What any attacker can reach under a privacy curve: recognise, answer rightly, reconstruct.

A value of this file stands beside epsilon in a plan and in a statement. It follows from the whole
curve by its blow-up B (`blow_up.py`), so it says more than epsilon at one delta does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from dppipe.errors import UsageError
from dppipe.privacy.rounding import round_up
from dppipe.privacy.tradeoff.blow_up import blow_up_of
from dppipe.privacy.tradeoff.gaussian_cover import covering_mu

if TYPE_CHECKING:
    from dppipe.privacy.accountants.base import Composition

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
PRIORS = (1e-4, 1e-2)
_DIGITS = 4
_POINTS = 300
"""At how many values of epsilon the curve is read: limits are then at most 0.02 % too large."""


class Recognition(BaseModel):
    """How many units that took part are recognised, at a rate of false alarms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    false_positive_rate: float
    true_positive_rate: float


class Reconstruction(BaseModel):
    """How probable a hit becomes that has the probability `prior` without the unit's influence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prior: float
    probability: float


class AttackLimits(BaseModel):
    """Upper bounds on what any attack on one unit can reach.

    Guarantee: where the curve is a certificate's, every number is at least what an attack can
    reach that sees all that was released and knows all other units.
    - The true-positive rate is at most B of the false-positive rate (Dong, Roth and Su 2022). B is
      concave, so that holds for averages over many units, too.
    - The advantage, the true-positive rate less the false-positive rate, is at most delta(0).
    - A hit, such as reconstructing the unit, has at most the probability B(prior) (Balle, Cherubin
      and Hayes 2022; Hayes, Mahloujifar and Balle 2023).
    - mu is that of `gaussian_cover.py`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    membership: tuple[Recognition, ...]
    advantage: float
    reconstruction: tuple[Reconstruction, ...]
    mu: float | None
    """The mu of Gaussian differential privacy, from the claim's delta up; None if none is finite."""

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Return the limit at one of the rates of false alarms that are listed."""
        for limit in self.membership:
            if limit.false_positive_rate == false_positive_rate:
                return limit.true_positive_rate
        raise UsageError(
            f"false_positive_rate: expected one of {FALSE_POSITIVE_RATES}, got "
            f"{false_positive_rate!r}."
        )

    def numbers(self) -> tuple[float, ...]:
        """Return all limits in one order; an infinite mu is left out."""
        rates = [limit.true_positive_rate for limit in self.membership]
        hits = [limit.probability for limit in self.reconstruction]
        mus = [] if self.mu is None else [self.mu]
        return (*rates, self.advantage, *hits, *mus)


def attack_limits(cost: Composition, *, delta: float) -> AttackLimits:
    """Return what any attacker can reach under a cost, each number rounded up.

    Args:
        cost: What everything that is released costs. The limits of an `Estimate` are estimates.
        delta: The delta of the run's claim; mu holds at this delta and at every larger one.
    """
    blow_up = blow_up_of(cost.curve, points=_POINTS)
    membership = []
    for rate in FALSE_POSITIVE_RATES:
        limit = _rounded(float(blow_up(rate)))
        membership.append(Recognition(false_positive_rate=rate, true_positive_rate=limit))
    reconstruction = []
    for prior in PRIORS:
        limit = _rounded(float(blow_up(prior)))
        reconstruction.append(Reconstruction(prior=prior, probability=limit))
    mu = covering_mu(cost, delta=delta)
    return AttackLimits(
        membership=tuple(membership),
        advantage=_rounded(cost.delta(0.0)),
        reconstruction=tuple(reconstruction),
        mu=None if mu is None else _rounded(mu),
    )


def _rounded(limit: float) -> float:
    return round_up(limit, _DIGITS)
