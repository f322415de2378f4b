"""What a clipper is: a frozen rule from one example's gradient norms to the factors that shrink it.

A clipper sees norms, not gradients, and one example at a time; the engine forms the clipped sum and enforces the stated
bound after any clipper (`dppipe.engine.bounds`). So a clipper decides utility and can't break the guarantee by mistake.
`groups`, `bounds` and `factors` are all that most need; the rest is for those that adapt, average or change coordinates.
Read next: `flat.py`, then `layerwise.py`, then `adaptive.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dppipe.component import Component, Field
from dppipe.spec.component_field import ComponentOf

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.engine.contracts import Factors
    from dppipe.optim.schedules.base import LRSchedule
    from dppipe.privacy.budget import Relation
else:
    LRSchedule = Annotated[Component, ComponentOf("schedule")]

State = Mapping[str, Any]
"""What an adaptive clipper remembers between steps: plain numbers, tuples and tensors, so that it can be checkpointed."""


class Clipper(Component):
    """How one example's gradient is shrunk.

    Guarantee: one unit changes the clipped sum by at most `sensitivity(bounds, relation)`, whatever `factors` returns,
    because the engine enforces the bounds after it and the core refuses a sensitivity below what they imply.
    """

    needs: ClassVar[Literal["norms", "gradients", "projections"]] = "norms"
    """What the engine works out for each example: its norms, whole gradients for `transform`, or estimates of its norm."""
    averages: ClassVar[bool] = False
    """Whether `slots` puts examples together that are averaged before they are clipped."""

    max_grad_norm: float = Field(
        1.0, gt=0, description="The bound: no example's gradient counts for more than this norm."
    )
    bound_schedule: LRSchedule | None = Field(
        None,
        description="A factor on the bounds over the run. It costs no privacy: the noise follows the bound.",
    )

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Put each trainable parameter in a named group; each group gets its own norm, bound and factor."""
        return dict.fromkeys(named_shapes, "all")

    def init_state(self, group_sizes: Mapping[str, int]) -> State:
        """Give the first state, from the number of parameters in each group."""
        return {}

    def bounds(self, state: State) -> float | Sequence[float]:
        """Give the bound of every group: one number for each, or one for all of them."""
        return self.max_grad_norm

    def factors(
        self, norms: Tensor, bounds: Tensor
    ) -> Tensor:  # one example: [groups], [groups] -> [groups]
        """Give the factor by which each group of one example's gradient is multiplied."""
        raise self.unwritten("factors(norms, bounds)")

    def sensitivity(self, bounds: Sequence[float], relation: Relation) -> float:
        """Say how far one unit can move the clipped sum: by the norm of the bounds, twice that where another takes its place."""
        return math.hypot(*bounds) * (2 if relation == "replace_one" else 1)

    def bound_factors(self, steps: int) -> list[float]:
        """Give the factor on the bounds at each of `steps` steps."""
        if self.bound_schedule is None:
            return [1.0] * steps
        return [self.bound_schedule.factor_at(step, steps=steps) for step in range(steps)]

    # For clippers that adapt. A statistic is released with noise, in the same step and within its cost.

    def at(self, state: State) -> Factors:
        """Give the clipper as it stands in this state; only one whose factors follow more than the bounds gives another."""
        return self

    def statistics_std(self, expected_batch_size: float) -> float | None:
        """Give the noise on a sum of one statistic over a batch, or None where there are no statistics."""
        return None

    def statistics(
        self, norms: Tensor, bounds: Tensor
    ) -> Tensor:  # one example: [groups], [groups] -> [statistics]
        """Give one example's statistics; the core holds each to [-1/2, 1/2]."""
        raise self.unwritten("statistics(norms, bounds)")

    def update(self, state: State, released: Mapping[str, Any]) -> State:
        """Give the next state from values that were released with noise.

        Args:
            state: The state that this step was clipped with.
            released: `means`, each statistic's noisy sum over the expected batch size; `gradient`, the noisy mean gradient
                by parameter, before `restore`; `noise_std`, its noise; `expected_batch_size`.
        """
        return state

    # For clippers that change coordinates or put examples together.

    def restore(self, state: State, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take back, after the noise, what was done to gradients before it; by public numbers only."""
        return gradient

    def slots(
        self, indices: NDArray[numpy.int64], *, expected_batch_size: float
    ) -> NDArray[numpy.int64]:  # [B] -> [B]
        """Give the slot of each record by its own index alone; gradients of one slot are averaged, then clipped."""
        raise self.unwritten("slots(indices, *, expected_batch_size)")

    # What can't be combined, or has to be paid for.

    def refusal(self, relation: Relation) -> str | None:
        """Say why this clipper can't be used under a relation, and what to do; None where it can."""
        return None

    def failure_delta(self, *, uses: float) -> float:
        """Give the delta that is set aside for a bound that may fail; `uses` is how often a record is clipped in the run."""
        return 0.0
