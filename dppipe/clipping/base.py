"""What a clipper is: a frozen rule from one example's gradient norms to the factors that shrink it.

A clipper sees norms, not gradients, and one example at a time; the engine forms the clipped sum and enforces the stated
bound after any clipper (`dppipe.engine.bounds`). So a clipper decides utility and can't break the guarantee by mistake.
Read next: `flat.py`, then `layerwise.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dppipe.component import Component, Field

if TYPE_CHECKING:
    from torch import Tensor

State = Mapping[str, Any]
"""What an adaptive clipper remembers between steps: plain numbers and tuples, so that it can be checkpointed."""


class Clipper(Component):
    """How one example's gradient is shrunk.

    Guarantee: under `zero_out` and `add_remove` one record changes the clipped sum by at most the norm of `bounds`, whatever
    `factors` returns, because the engine enforces the bounds after it; under `replace_one` by at most twice that.
    """

    needs: ClassVar[Literal["norms", "gradients"]] = "norms"

    max_grad_norm: float = Field(1.0, gt=0, description="The bound: no example's gradient counts for more than this norm.")

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Put each trainable parameter in a named group; each group gets its own norm, bound and factor."""
        return dict.fromkeys(named_shapes, "all")

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        """Give the first state, from the number of parameters in each group."""
        return {}

    def bounds(self, state: State) -> float | Sequence[float]:
        """Give the bound of every group: one number for each, or one for all of them."""
        return self.max_grad_norm

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # one example: [groups], [groups] -> [groups]
        """Give the factor by which each group of one example's gradient is multiplied."""
        raise NotImplementedError

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        """Give the next state from values that were released with noise."""
        return state
