"""Global clipping: all gradients within a threshold are scaled by one factor.

So their directions add up without bias.
"""

# The file is named after its kind and imported by name (`import_module`).
# ruff: noqa: N999
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dppipe.clipping.base import Clipper, State
from dppipe.clipping.quantiles import count_std, next_threshold
from dppipe.component import AutoFloat, Field

if TYPE_CHECKING:
    from torch import Tensor

LOWEST = 1e-6
"""The threshold never falls below this."""
HIGHEST = 1e6
"""The threshold never rises above this."""


class Global(Clipper, kind="global"):
    """Scales every gradient within the threshold by the same factor.

    `strict` drops a gradient above the threshold (Bu et al. 2021). `adaptive` keeps it, cut to the
    bound, and lets the threshold follow a quantile of the norms (Esipova et al. 2023,
    "DPSGD-Global-Adapt").

    Guarantee: the threshold only follows noisy counts, which are paid for within each step's noise
    multiplier.
    """

    elementwise: ClassVar[bool] = True

    variant: Literal["strict", "adaptive"] = Field(
        "strict", description="Drop what is above the threshold, or adapt it and keep all."
    )
    threshold: float = Field(
        10.0,
        ge=LOWEST,
        le=HIGHEST,
        description="Gradients up to this norm are scaled alike; where it adapts, the first one.",
    )
    target_unclipped_quantile: float = Field(
        0.9, ge=0, le=1, description="`adaptive`: the share of examples within the threshold."
    )
    clipbound_learning_rate: float = Field(
        0.2, gt=0, description="`adaptive`: how fast the threshold moves."
    )
    unclipped_num_std: AutoFloat = Field(
        "auto",
        gt=0,
        le=1e9,
        description="`adaptive`: noise on the count of examples within; "
        "`auto`: a twentieth of the expected batch.",
    )

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        return {"threshold": self.threshold}

    def at(self, state: State) -> Self:
        return self.model_copy(update={"threshold": state["threshold"]})

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        above = bounds / norms if self.variant == "adaptive" else 0 * norms
        return (bounds / self.threshold).where(norms <= self.threshold, above)

    def statistics_std(self, expected_batch_size: float) -> float | None:
        if self.variant == "strict":
            return None
        return count_std(self.unclipped_num_std, expected_batch_size)

    def statistics(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [1], [1] -> [1]
        return (norms <= self.threshold).to(norms.dtype) - 0.5

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        if self.variant == "strict":
            return state
        moved = next_threshold(
            state["threshold"],
            released["means"][0],
            target=self.target_unclipped_quantile,
            learning_rate=self.clipbound_learning_rate,
            low=LOWEST,
            high=HIGHEST,
        )
        return {"threshold": moved}
