"""Layerwise clipping: each layer has its own norm and its own share of the bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dppipe.clipping.base import Clipper, State

if TYPE_CHECKING:
    from torch import Tensor


class Layerwise(Clipper, kind="layerwise"):
    """Scales each layer's gradient down to an equal share of the bound: `max_grad_norm` is the norm of all shares together."""

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        return {name: name.rpartition(".")[0] or name for name in named_shapes}

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        share = self.max_grad_norm / math.sqrt(max(1, len(group_sizes)))
        return {"bounds": (share,) * len(group_sizes)}

    def bounds(self, state: State) -> Sequence[float]:
        return tuple(state["bounds"])

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (bounds / norms).clamp(max=1)
