"""Layerwise clipping: each layer has its own norm and its own bound (McMahan et al. 2018, section 2.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import PositiveFloat, model_validator

from dppipe.clipping.base import Clipper, State
from dppipe.clipping.parameter_groups import by_layer, equal_shares, shares_by_size
from dppipe.component import Field
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


class Layerwise(Clipper, kind="layerwise"):
    """Scales each layer's gradient down to that layer's own bound; `max_grad_norm` is the norm of all bounds together."""

    shares: Literal["equal", "parameters"] = Field(
        "equal", description="How the bound is split over layers: equally, or by their number of parameters."
    )
    max_grad_norms: tuple[PositiveFloat, ...] | None = Field(
        None, min_length=1, description="A bound for each layer in the model's order, instead of shares of one."
    )

    @model_validator(mode="before")
    @classmethod
    def _listed_bounds_say_it_all(cls, data: Any) -> Any:
        listed = data.get("max_grad_norms") if isinstance(data, dict) else None
        if not listed or not isinstance(listed, (list, tuple)) or not all(isinstance(bound, (int, float)) for bound in listed):
            return data
        whole = math.hypot(*listed)
        if not math.isclose(data.get("max_grad_norm", whole), whole):
            raise ValueError(f"expected no max_grad_norm beside max_grad_norms, whose norm is {whole:g}. Leave one out.")
        return {**data, "max_grad_norms": tuple(listed), "max_grad_norm": whole}

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        return by_layer(named_shapes)

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        if self.max_grad_norms is not None and len(self.max_grad_norms) != len(group_sizes):
            layers = ", ".join(group_sizes)
            raise UsageError(
                f"clipping.max_grad_norms: expected {len(group_sizes)} bounds, one for each layer ({layers}), "
                f"got {len(self.max_grad_norms)}."
            )
        split = equal_shares if self.shares == "equal" else shares_by_size
        return {"bounds": self.max_grad_norms or split(self.max_grad_norm, group_sizes)}

    def bounds(self, state: State) -> Sequence[float]:
        return tuple(state["bounds"])

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (bounds / norms).clamp(max=1)
