"""A stage of the way from the data to the model.

A stage is either fixed, a function of each record, or it is *released*: computed from all training
records, charged before the learner's own releases, and saved in the run directory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.privacy.release import Prelude
    from dppipe.runs.directory import RunDirectory


class InputTransform(Protocol):
    """A function of one input, for batches of them."""

    def transformed(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, ...]
        """Return what each input becomes; a row depends on its own input alone."""
        ...


class ReleasedStage(ABC):
    """A stage whose transform is computed from a noisy sum over the training records.

    Guarantee: one unit's presence moves `total` by at most `sensitivity`. `transform` sees the
    noisy sum and public facts alone.
    """

    @property
    @abstractmethod
    def prelude(self) -> Prelude:
        """The option that asks for the release, which plans it."""

    @abstractmethod
    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one input after this stage."""

    @abstractmethod
    def size(self, input_shape: Sequence[int]) -> int:
        """Return how many numbers are released."""

    @abstractmethod
    def sensitivity(self, input_shape: Sequence[int]) -> float:
        """Return how far one unit's presence moves the sum."""

    @abstractmethod
    def total(self, inputs: Tensor, users: NDArray[numpy.int64] | None) -> Tensor:  # -> [size]
        """Return the sum over usable records, or over users' averages; it isn't private yet."""

    @abstractmethod
    def transform(
        self, noisy: Tensor, *, count: int | None, input_shape: Sequence[int]
    ) -> InputTransform:
        """Return the transform of a noisy sum.

        Args:
            noisy: `[size]`
            count: The number of units, None where it is secret; a stage that uses it says so by
                `prelude.needs_count`.
            input_shape: The shape of one input before this stage.
        """

    @abstractmethod
    def made_up(self, input_shape: Sequence[int]) -> InputTransform:
        """Return a transform of the same shapes that is made up, for self-checks."""

    @abstractmethod
    def file(self, run: RunDirectory) -> Path:
        """Return where the transform is saved."""

    @abstractmethod
    def read(self, run: RunDirectory) -> InputTransform:
        """Return the transform that a run has released."""

    @abstractmethod
    def write(self, run: RunDirectory, transform: InputTransform) -> None:
        """Save a transform durably, whole or not at all."""
