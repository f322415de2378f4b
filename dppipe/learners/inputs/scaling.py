"""Scaling inputs by noisy statistics of the training records, saved in `statistics.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from dppipe.data.reading.private_scaling import PrivateScaling, padded
from dppipe.data.reading.scaling import Constants
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.inputs.stages import InputTransform, ReleasedStage
from dppipe.runs.directory import RunDirectory, write_json

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor


@dataclass(frozen=True)
class ScalingStage(ReleasedStage):
    """Inputs are scaled by private statistics."""

    scaling: PrivateScaling
    features: int | None = None
    """How many entries of an input's first dimension are scaled; None for all."""

    @property
    def prelude(self) -> PrivateScaling:
        """Return the option that asks for the release."""
        return self.scaling

    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one input after this stage."""
        return tuple(input_shape)

    def size(self, input_shape: Sequence[int]) -> int:
        """Return how many numbers are released."""
        return self.scaling.statistic.width * self._channels(input_shape)

    def sensitivity(self, input_shape: Sequence[int]) -> float:
        """Return how far one unit's presence moves the sum."""
        return self.scaling.sensitivity(self._channels(input_shape))

    def total(self, inputs: Tensor, users: NDArray[numpy.int64] | None) -> Tensor:
        """Return the sum over usable records, which isn't private yet."""
        return torch.from_numpy(self.scaling.total(inputs[:, : self.features].numpy(), users))

    def transform(
        self, noisy: Tensor, *, count: int | None, input_shape: Sequence[int]
    ) -> Constants:
        """Return the constants of noisy sums over `count` units."""
        if count is None:
            raise PrivacyRefusal(
                "data.normalize: expected a public number of records, which statistics are divided "
                "by, got a secret one. Give constants, or take relation: zero_out."
            )
        return padded(self.scaling.constants(noisy.numpy(), count=count), input_shape[0])

    def made_up(self, input_shape: Sequence[int]) -> Constants:
        """Return a made-up transform of the same shapes."""
        return Constants()

    def file(self, run: RunDirectory) -> Path:
        """Return where the transform is saved."""
        return run.statistics

    def read(self, run: RunDirectory) -> Constants:
        """Return the transform that a run has released."""
        try:
            return Constants.from_data(json.loads(run.statistics.read_bytes()))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{run.statistics}: expected the statistics that the run has released, "
                "got another file."
            ) from error

    def write(self, run: RunDirectory, transform: InputTransform) -> None:
        """Save the transform durably."""
        write_json(run.statistics, cast(Constants, transform).model_dump(mode="json"))

    def _channels(self, input_shape: Sequence[int]) -> int:
        return input_shape[0] if self.features is None else self.features
