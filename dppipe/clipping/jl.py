"""JL clipping: norms are estimated from a few random projections.

Source: Bu et al. 2021, "DP-SGD-JL".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from dppipe.clipping.base import Clipper
from dppipe.component import Field
from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.privacy.budget import Relation


class Jl(Clipper, kind="jl"):
    """Clips by estimated norms, which need little memory; the bound may fail.

    Each estimate comes from `projections` directional derivatives.

    Guarantees:
    - An estimate is the true norm times sqrt(chi2_r / r). It is below (1 - tolerance) of the true
      norm with the probability that `failure_probability` returns; otherwise the example counts for
      at most `max_grad_norm`.
    - The probability that a record's bound ever fails is set aside from the budget's delta. A run
      whose steps need more of it than `delta` is refused.
    """

    elementwise: ClassVar[bool] = True

    needs: ClassVar[Literal["projections"]] = "projections"

    projections: int = Field(
        100, gt=0, description="Random directions for each estimate; each costs a forward pass."
    )
    tolerance: float = Field(
        0.5, gt=0, lt=1, description="How far below the true norm an estimate may be."
    )
    delta: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="The part of the budget's delta that pays for bounds that fail.",
    )

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (bounds / norms).clamp(max=1)

    def failure_probability(self) -> float:
        """Return the probability that an estimate is too low: Pr[chi2_r < r (1 - tolerance)^2]."""
        from scipy.stats import chi2

        return float(chi2.cdf(self.projections * (1 - self.tolerance) ** 2, self.projections))

    def failure_delta(self, *, uses: float) -> float:
        needed = uses * self.failure_probability() if uses else 0.0
        if self.delta is None or not needed <= self.delta:
            got = "nothing" if self.delta is None else f"{self.delta:g}"
            raise PrivacyRefusal(
                f"clipping.delta: expected at least {1.001 * needed:.4g}, "
                f"the chance that a record's bound ever fails, got {got}. "
                "Set it, raise clipping.projections or clipping.tolerance, "
                "or take kind: flat, whose norms are exact."
            )
        return self.delta

    def refusal(self, relation: Relation) -> str | None:
        if self.delta is not None:
            return None
        return (
            "expected its failure probability to be paid for: norms are estimates, and a bound may "
            "fail. Set clipping.delta, the part of the budget's delta that pays for it "
            "(dppipe plan says how much is needed), or take kind: flat"
        )
