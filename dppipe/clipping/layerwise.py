"""Layerwise clipping: each layer has its own norm and its own bound (McMahan et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import PositiveFloat, model_validator

from dppipe.clipping.base import Clipper, State
from dppipe.clipping.parameter_groups import (
    by_layer,
    equal_shares,
    shares_by_size,
    with_whole_bound,
)
from dppipe.component import Field
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


class Layerwise(Clipper, kind="layerwise"):
    """Scales each layer's gradient down to its own bound; `max_grad_norm` is the bounds' norm."""

    elementwise: ClassVar[bool] = True

    shares: Literal["equal", "parameters"] = Field(
        "equal",
        description="How the bound is split over layers: "
        "equally, or by their number of parameters.",
    )
    max_grad_norms: tuple[PositiveFloat, ...] | None = Field(
        None,
        min_length=1,
        description="A bound for each layer in the model's order, instead of shares of one.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_whole_bound(cls, data: Any) -> Any:
        return with_whole_bound(data)

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        return by_layer(named_shapes)

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        if self.max_grad_norms is not None and len(self.max_grad_norms) != len(group_sizes):
            layers = ", ".join(group_sizes)
            raise UsageError(
                f"clipping.max_grad_norms: expected {len(group_sizes)} bounds, "
                f"one for each layer ({layers}), got {len(self.max_grad_norms)}."
            )
        split = equal_shares if self.shares == "equal" else shares_by_size
        return {"bounds": self.max_grad_norms or split(self.max_grad_norm, group_sizes)}

    def bounds(self, state: State) -> Sequence[float]:
        return tuple(state["bounds"])

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (bounds / norms).clamp(max=1)
