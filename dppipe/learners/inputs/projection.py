"""Projecting inputs on noisy principal components, saved in `projection.pt`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from dppipe.data.features.pca import PrivatePca
from dppipe.errors import UsageError
from dppipe.learners.inputs.second_moments import second_moments, to_matrix
from dppipe.learners.inputs.stages import InputTransform, ReleasedStage
from dppipe.runs.directory import RunDirectory
from dppipe.runs.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_BATCH = 512
"""How many rows are multiplied at once; every batch has this many places, so that a row's rounding
doesn't follow from how many others there are."""


@dataclass(frozen=True)
class Projection:
    """Inputs become their products with some directions."""

    directions: Tensor
    """`[d, components]`, float64: orthonormal columns, the one with the most variance first."""

    def transformed(self, inputs: Tensor) -> Tensor:  # [n, ...] -> [n, components]
        """Return the products of each input, in its type."""
        if inputs[:1].numel() != len(self.directions) * len(inputs[:1]):
            raise UsageError(
                f"data.features: expected inputs of {len(self.directions)} numbers, got "
                f"{list(inputs.shape[1:])}. Give them as the file has them."
            )
        flat = inputs.flatten(1)
        directions = self.directions.to(inputs.device)
        made = inputs.new_empty(len(flat), directions.shape[1])
        places = flat.new_zeros(_BATCH, flat.shape[1], dtype=torch.float64)
        for start in range(0, len(flat), _BATCH):
            part = flat[start : start + _BATCH]
            places[: len(part)] = part
            made[start : start + _BATCH] = (places @ directions)[: len(part)]
        return made


@dataclass(frozen=True)
class ProjectionStage(ReleasedStage):
    """Inputs are projected on principal components of the training records."""

    pca: PrivatePca

    @property
    def prelude(self) -> PrivatePca:
        """Return the option that asks for the release."""
        return self.pca

    def output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one input after this stage."""
        return self.pca.output_shape(input_shape)

    def size(self, input_shape: Sequence[int]) -> int:
        """Return how many numbers are released."""
        width = math.prod(input_shape)
        return width * (width + 1) // 2

    def sensitivity(self, input_shape: Sequence[int]) -> float:
        """Return how far one unit's presence moves the sum."""
        return self.pca.sensitivity

    def total(self, inputs: Tensor, users: NDArray[numpy.int64] | None) -> Tensor:
        """Return the sum over usable records, which isn't private yet."""
        return second_moments(inputs, users, max_norm=self.pca.max_norm)

    def transform(
        self, noisy: Tensor, *, count: int | None, input_shape: Sequence[int]
    ) -> Projection:
        """Return the projection on the eigenvectors with the largest eigenvalues."""
        matrix = to_matrix(noisy, math.prod(input_shape))
        _, vectors = torch.linalg.eigh(matrix)  # the largest eigenvalue comes last
        return Projection(vectors[:, -self.pca.components :].flip(1).contiguous())

    def made_up(self, input_shape: Sequence[int]) -> Projection:
        """Return a made-up transform of the same shapes."""
        width = math.prod(input_shape)
        generator = torch.Generator().manual_seed(0)
        numbers = torch.randn(width, self.pca.components, generator=generator, dtype=torch.float64)
        return Projection(numbers / math.sqrt(width))

    def file(self, run: RunDirectory) -> Path:
        """Return where the transform is saved."""
        return run.projection

    def read(self, run: RunDirectory) -> Projection:
        """Return the transform that a run has released."""
        found = load_tensors(run.projection)
        directions = found.get("directions") if isinstance(found, dict) else None
        if not isinstance(directions, Tensor) or directions.dim() != 2:
            raise UsageError(
                f"{run.projection}: expected the projection that the run has released, got "
                "another file."
            )
        return Projection(directions)

    def write(self, run: RunDirectory, transform: InputTransform) -> None:
        """Save the transform durably."""
        save_tensors({"directions": cast(Projection, transform).directions}, run.projection)
