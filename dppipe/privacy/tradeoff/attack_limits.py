"""What any attacker can reach under a privacy curve: recognise, answer rightly, reconstruct.

A value of this file stands beside epsilon in a plan and in a statement. It follows from the whole
curve by its blow-up B (`blow_up.py`), so it says more than epsilon at one delta does. Read next:
`limits_of_cost.py`, which computes it.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from dppipe.errors import UsageError

_TOLERANCE = 2e-3
"""How far limits of other machines may be apart, relatively: two units of their last digit."""


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
    """Mu of Gaussian differential privacy, from the claim's delta up; None if none is finite."""

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Return the limit at one of the rates of false alarms that are listed."""
        for limit in self.membership:
            if limit.false_positive_rate == false_positive_rate:
                return limit.true_positive_rate
        known = ", ".join(f"{limit.false_positive_rate:g}" for limit in self.membership)
        raise UsageError(
            f"false_positive_rate: expected one of {known}, got {false_positive_rate!r}."
        )

    def understates(self, needed: AttackLimits) -> bool:
        """Whether a number here is below that of other limits, or its rate or prior is another."""
        own = _numbers(self)
        others = _numbers(needed)
        if own.keys() != others.keys():
            return True
        # The comparison is written so that NaN understates.
        return not all(own[name] >= others[name] * (1 - _TOLERANCE) for name in own)


def _numbers(limits: AttackLimits) -> dict[tuple[str, float], float]:
    """Return all limits by what they are, and by their rate or prior."""
    mu = math.inf if limits.mu is None else limits.mu
    numbers = {("advantage", 0.0): limits.advantage, ("mu", 0.0): mu}
    for limit in limits.membership:
        numbers["membership", limit.false_positive_rate] = limit.true_positive_rate
    for hit in limits.reconstruction:
        numbers["reconstruction", hit.prior] = hit.probability
    return numbers
