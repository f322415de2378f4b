"""Grouped clipping: patterns of names put parameters in groups, each with its own bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PositiveFloat, model_validator

from dppipe.clipping.base import Clipper, State
from dppipe.clipping.parameter_groups import by_pattern, with_whole_bound
from dppipe.component import Field

if TYPE_CHECKING:
    from torch import Tensor


class Grouped(Clipper, kind="grouped"):
    """Scales each group's gradient down to that group's bound.

    A parameter belongs to the first pattern that matches its whole name, where `*` matches any
    text. A parameter that no pattern matches is refused before training, and so is a pattern that
    gets no parameter; `"*"` as the last pattern takes the rest.
    """

    elementwise: ClassVar[bool] = True

    max_grad_norms: dict[str, PositiveFloat] = Field(
        min_length=1,
        description="The bound of each group, by a pattern of parameter names; "
        "the first that matches counts.",
        examples=[{"*": 1.0}],
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_whole_bound(cls, data: Any) -> Any:
        return with_whole_bound(data)

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        return by_pattern(named_shapes, self.max_grad_norms)

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        return {"bounds": tuple(self.max_grad_norms[pattern] for pattern in group_sizes)}

    def bounds(self, state: State) -> Sequence[float]:
        return tuple(state["bounds"])

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return (bounds / norms).clamp(max=1)
