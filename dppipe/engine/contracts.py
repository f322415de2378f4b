"""The types of the engine's door: what a clipper looks like from here, what a loss is, what comes back.

The engine stands below the clippers, so it knows them by their shape only.
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
        """Put each trainable parameter in a named group."""

    def bounds(self, state: Mapping[str, Any], /) -> float | Sequence[float]:
        """Give the bound of every group, or one for all."""

    def factors(self, norms: Tensor, bounds: Tensor, /) -> Tensor:  # one example: [G], [G] -> [G]
        """Give the factor of each group."""


class ClippedSum(NamedTuple):
    """What one batch gives: neither value is private before noise."""

    sums: dict[str, Tensor]
    """The sum of the clipped gradients for every trainable parameter, float32 or wider; zeros where one is unused."""
    norms: Tensor
    """`[B, G]`: each row's gradient norm in each group; a row of a unit carries its unit's norm, a masked row 0."""
