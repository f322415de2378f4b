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

_BATCH = 4096
"""How many rows are multiplied at once."""
_PART_BITS = 17
"""Bits of each of the two whole numbers that a direction's number is cut into."""
_EXACT_BITS = 53
"""Whole numbers of this many bits are exact in float64, whatever the order of a sum."""
_LEAST_PEAK = 2.0**-900
"""Rows whose largest number is smaller are cut as if it were this: powers of two stay exact."""


@dataclass(frozen=True)
class Projection:
    """Inputs become their products with some directions.

    Guarantee: what an input becomes is a function of it and of the directions, to the last bit.
    A library's product of matrices may round a row by its place among others; taking one record
    out would then change others, and the blocks that hashes put them in. So rows, relative to
    their own largest number, and directions are cut to whole numbers whose products add up to at
    most 2^53: their sums are exact, and rounding happens afterwards, for each number alone.
    """

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
        for start in range(0, len(flat), _BATCH):
            part = slice(start, start + _BATCH)
            made[part] = _exact_products(flat[part].to(torch.float64), directions)
        return made


def _exact_products(rows: Tensor, directions: Tensor) -> Tensor:  # [n, d], [d, k] -> [n, k]
    """Return products that are rounded once, at the end; directions are within [-1, 1]."""
    bits = _EXACT_BITS - _PART_BITS - math.ceil(math.log2(max(rows.shape[1], 2)))
    peak = rows.abs().amax(1, keepdim=True).clamp_min(_LEAST_PEAK)
    # The power of two above a row's peak is a quotient without rounding, unlike torch.exp2. A row
    # that isn't finite has none: its unit is NaN, and so are its products.
    unit = peak / 2 / torch.frexp(peak).mantissa * 2.0 ** (1 - bits)
    steps = (rows / unit).round()
    high = (directions * 2.0**_PART_BITS).trunc()
    low = ((directions * 2.0**_PART_BITS - high) * 2.0**_PART_BITS).trunc()
    whole = (steps @ high) * 2.0**_PART_BITS + steps @ low
    return whole * 2.0 ** (-2 * _PART_BITS) * unit


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
