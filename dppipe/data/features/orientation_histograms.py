"""Orientation histograms of images: fixed features, each a function of its own record.

Gradients of an image are counted by their direction in cells of several grids, as in the
histograms of oriented gradients of Dalal and Triggs (2005). `gradient_histograms.py` computes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from dppipe.component import Field
from dppipe.data.features.base import FixedFeatures

if TYPE_CHECKING:
    from torch import Tensor

_SMALLEST = 4
"""Pixels of the shorter side: below that, no cell has a gradient of its own."""


class OrientationHistograms(FixedFeatures):
    """What `features: {kind: orientation_histograms}` takes.

    Guarantee: a record's features are a function of that record and these options alone, to the
    last bit; their Euclidean norm is at most 1 up to the rounding of float32, and 0 for an image
    without a gradient. A record with a number that isn't finite has features that aren't.
    """

    kind: Literal["orientation_histograms"] = "orientation_histograms"
    orientations: int = Field(8, ge=2, le=64, description="Directions that are told apart.")
    cells: tuple[int, ...] = Field(
        (8,),
        min_length=1,
        max_length=8,
        description="Cells along each side of the image, for one grid or several.",
    )
    cache: bool = Field(
        True,
        description="Whether features of a dataset are kept in files beside the local store, "
        "which only their owner may read.",
    )

    @property
    def is_cached(self) -> bool:
        """Whether the features of whole datasets are kept in files."""
        return self.cache

    def problems(self, input_shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        shape = tuple(input_shape)
        if len(shape) != 3 or min(shape[1:]) < _SMALLEST:
            yield (
                "kind",
                f"expected images [channels, height, width] of at least {_SMALLEST} pixels a side "
                f"for orientation_histograms, got inputs of shape {list(shape)}. Take kind: pca, "
                "or leave features out.",
            )
            return
        side = min(shape[1:])
        if min(self.cells) < 1 or max(self.cells) > side:
            yield (
                "cells",
                f"expected 1 to {side} cells along a side of {side} pixels, got "
                f"{list(self.cells)}. Change them.",
            )

    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        return (self.orientations * sum(cells * cells for cells in self.cells),)

    def transformed(self, inputs: Tensor) -> Tensor:  # [n, channels, h, w] -> [n, features]
        from dppipe.data.features.gradient_histograms import gradient_histograms

        return gradient_histograms(inputs, orientations=self.orientations, grids=self.cells)
