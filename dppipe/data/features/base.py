"""What a kind of features can say of itself before a record is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dppipe.component import Options

if TYPE_CHECKING:
    from torch import Tensor


class FeatureMap(Options):
    """What `data.features` takes: how an input becomes what the model sees.

    Guarantee: `problems` and `output_shape` follow from options and the shape of an input alone.
    """

    @abstractmethod
    def problems(self, input_shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Yield each option that doesn't fit inputs of this shape, with a message."""

    @abstractmethod
    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one record's features."""


class FixedFeatures(FeatureMap):
    """Features that are known without a record: a function of each record alone.

    Guarantee: they release nothing and cost nothing.
    """

    @property
    @abstractmethod
    def is_cached(self) -> bool:
        """Whether the features of whole datasets are kept in files (`cache.py`)."""

    @abstractmethod
    def transformed(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, *output_shape]
        """Return the features of each input; a row depends on its own input alone."""
