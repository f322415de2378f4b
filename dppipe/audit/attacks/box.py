"""The range in which the inputs of some data lie, as the model sees them: images have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dppipe.data.base import Data
    from dppipe.learners.inputs.stages import InputTransform


@dataclass(frozen=True)
class Box:
    """The range of each number of an input."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def span(self) -> float:
        """The width of the range."""
        return self.high - self.low


_LARGEST_PIXEL = {"digits": 16.0, "idx": 255.0}
"""The range of a pixel in the files of each kind of images starts at 0 and ends here."""


def box_of(data: Data, transforms: Sequence[InputTransform]) -> Box | None:
    """Return the range of the model's inputs; None where nothing public says it.

    Args:
        data: The data of a run.
        transforms: What the run does to inputs between the data and the model.
    """
    largest = _LARGEST_PIXEL.get(data.kind)
    if largest is None or data.feature_map is not None:
        return None
    ends = torch.stack(
        [torch.zeros(tuple(data.input_shape)), torch.full(tuple(data.input_shape), largest)]
    )
    for transform in (*data.public_scaling, *transforms):
        ends = transform.transformed(ends)
    return Box(float(ends.min()), float(ends.max()))
