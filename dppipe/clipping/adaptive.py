"""Adaptive clipping: the bound follows a quantile of the gradient norms, learned privately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import PositiveFloat, model_validator

from dppipe.clipping.base import Clipper, State
from dppipe.clipping.parameter_groups import by_layer, by_pattern, equal_shares, with_whole_bound
from dppipe.clipping.quantiles import count_std, next_threshold
from dppipe.component import AutoFloat, Field

if TYPE_CHECKING:
    from torch import Tensor


class Adaptive(Clipper, kind="adaptive"):
    """Moves the bound towards a quantile of the gradient norms (Andrew et al. 2021).

    With several groups, each has its own bound (He et al. 2022).

    Guarantees:
    - Besides the clipped sum, each step releases how many examples stayed within the bound,
      recentred and noised. The two together cost what the step's noise multiplier says, because the
      gradient gets correspondingly more noise.
    - The bound of a step depends on earlier releases only.
    """

    elementwise: ClassVar[bool] = True

    max_grad_norm: float = Field(
        1.0,
        gt=0,
        description="The first bound; with several groups, the norm of their first bounds.",
    )
    grouping: Literal["all", "layerwise"] = Field(
        "all", description="One bound for all parameters, or one for each layer."
    )
    max_grad_norms: dict[str, PositiveFloat] | None = Field(
        None,
        min_length=1,
        description="First bounds of groups by patterns of parameter names, "
        "as `grouped` takes them.",
    )
    target_unclipped_quantile: float = Field(
        0.5, ge=0, le=1, description="The share of examples that the bound lets through."
    )
    clipbound_learning_rate: float = Field(0.2, gt=0, description="How fast the bound moves.")
    min_clipbound: float = Field(1e-6, gt=0, description="No bound falls below this.")
    max_clipbound: float = Field(1e6, gt=0, description="No bound rises above this.")
    unclipped_num_std: AutoFloat = Field(
        "auto",
        gt=0,
        le=1e9,
        description="Noise on the count; `auto`: a twentieth of the expected batch. "
        "G groups: sqrt(G) times it each.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_whole_bound(cls, data: Any) -> Any:
        return with_whole_bound(data)

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.min_clipbound > self.max_clipbound:
            raise ValueError(
                "expected min_clipbound <= max_clipbound, "
                f"got {self.min_clipbound:g} and {self.max_clipbound:g}."
            )
        if self.max_grad_norms is not None and self.grouping != "all":
            raise ValueError("expected grouping or max_grad_norms, got both. Leave one out.")
        return self

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        if self.max_grad_norms is not None:
            return by_pattern(named_shapes, self.max_grad_norms)
        if self.grouping == "layerwise":
            return by_layer(named_shapes)
        return dict.fromkeys(named_shapes, "all")

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        shares = equal_shares(self.max_grad_norm, group_sizes)
        if self.max_grad_norms is not None:
            shares = tuple(self.max_grad_norms[pattern] for pattern in group_sizes)
        bounds = []
        for share in shares:
            bounds.append(min(max(share, self.min_clipbound), self.max_clipbound))
        return {"bounds": tuple(bounds)}

    def bounds(self, state: State) -> Sequence[float]:
        return tuple(state["bounds"])

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (bounds / norms).clamp(max=1)

    def statistics_std(self, expected_batch_size: float) -> float:
        return count_std(self.unclipped_num_std, expected_batch_size)

    def statistics(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (norms <= bounds).to(norms.dtype) - 0.5

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        bounds = []
        for bound, mean in zip(state["bounds"], released["means"], strict=True):
            moved = next_threshold(
                bound,
                mean,
                target=self.target_unclipped_quantile,
                learning_rate=self.clipbound_learning_rate,
                low=self.min_clipbound,
                high=self.max_clipbound,
            )
            bounds.append(moved)
        return {"bounds": tuple(bounds)}
