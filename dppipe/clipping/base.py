"""What a clipper is: a frozen rule from one example's gradient norms to the factors that shrink it.

A clipper sees norms, not gradients, and one example at a time; the engine forms the clipped sum and
enforces the stated bound after any clipper (`dppipe.engine.bounds`). So a clipper decides utility
and can't break the guarantee by mistake. `groups`, `bounds` and `factors` are all that most need.
A clipper that adapts, averages, transforms or may fail defines the methods of that ability's
protocol (`dppipe.clipper_abilities`). Read next: `flat.py`, then `layerwise.py`, `adaptive.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dppipe.clipper_abilities import State
from dppipe.component import Component, Field
from dppipe.errors import UsageError
from dppipe.spec.component_field import ComponentOf

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.optim.schedules.base import LRSchedule
else:
    LRSchedule = Annotated[Component, ComponentOf("schedule")]

__all__ = ["Clipper", "State"]


class Clipper(Component):
    """How one example's gradient is shrunk.

    Guarantee: one unit changes the clipped sum by at most the clipper's sensitivity, whatever
    `factors` returns, because the engine enforces the bounds after it and the core refuses a
    sensitivity below what they imply.

    Example:
        >>> from dppipe import Clipper
        >>> class Half(Clipper, kind="half"):
        ...     def factors(self, norms, bounds):  # one example: [groups], [groups] -> [groups]
        ...         return (bounds / norms).clamp(max=0.5)
        >>> Half(max_grad_norm=2.0).max_grad_norm
        2.0
    """

    needs: ClassVar[Literal["norms", "gradients", "projections"]] = "norms"
    """What the engine computes for each example.

    That is its norms, its whole gradient for `transform`, or an estimate of its norm.
    """
    elementwise: ClassVar[bool] = False
    """Whether each factor is computed from its own norm and bound alone, by arithmetic that works
    for `[examples, groups]` too. The engine then calls `factors` once for all examples; it believes
    this of the package's clippers only."""
    averages: ClassVar[bool]
    """Set to True beside `slots` by a clipper that averages examples before it clips them."""

    max_grad_norm: float = Field(
        1.0, gt=0, description="The bound: no example's gradient counts for more than this norm."
    )
    bound_schedule: LRSchedule | None = Field(
        None,
        description="A factor on the bounds over the run. "
        "It costs no privacy: the noise follows the bound.",
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if getattr(cls, "averages", False) and not hasattr(cls, "slots"):
            raise _lacks(cls, "slots(indices, *, expected_batch_size)", beside="averages = True")
        if hasattr(cls, "statistics_std") and not hasattr(cls, "statistics"):
            raise _lacks(cls, "statistics(norms, bounds)", beside="statistics_std")

    def groups(self, named_shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Put each trainable parameter in a named group.

        Each group gets its own norm, bound and factor.
        """
        return dict.fromkeys(named_shapes, "all")

    def bounds(self, state: State) -> float | Sequence[float]:
        """Return the bound of every group: one number for each, or one for all of them."""
        return self.max_grad_norm

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        """Return the factor by which each group of one example's gradient is multiplied."""
        raise self.unwritten("factors(norms, bounds)")


def _lacks(cls: type, method: str, *, beside: str) -> UsageError:
    return UsageError(f"{cls.__name__}: expected {method} beside {beside}, got none. Write it.")
