"""The types of the engine's interface: a clipper as the engine sees it, a loss, the result.

The engine doesn't import the clippers; it knows them by these protocols only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from dppipe.clipper_abilities import Factors

__all__ = ["ClippedSum", "Clips", "Factors", "PerSampleLoss"]

PerSampleLoss = Callable[[nn.Module, Any], Tensor]
"""`per_sample_loss(model, batch) -> [B]`: row i depends on row i of the batch alone."""


class Clips(Protocol):
    """A clipper as the engine sees it (`dppipe.clipping.base.Clipper`)."""

    def groups(self, named_shapes: Mapping[str, Sequence[int]], /) -> dict[str, str]:
        """Return the name of each trainable parameter's group."""

    def bounds(self, state: Mapping[str, Any], /) -> float | Sequence[float]:
        """Return the bound of every group, or one for all."""

    def factors(self, norms: Tensor, bounds: Tensor, /) -> Tensor:  # one example: [G], [G] -> [G]
        """Return the factor of each group."""


class ClippedSum(NamedTuple):
    """The result for one batch. Neither value is private before noise is added."""

    sums: dict[str, Tensor]
    """The sum of the clipped gradients for every trainable parameter, float32 or wider.

    It is zero for an unused parameter.
    """
    norms: Tensor
    """`[B, G]`: each row's gradient norm in each group.

    A row of a unit has its unit's norm, a masked row 0.
    """
