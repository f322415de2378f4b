"""Units: rows that belong to one privacy unit (a user's records, the augmentations of one example).

The gradients of a unit's rows are averaged before norm and clipping, so each unit, with however
many rows, is held to one clipping bound. All rows of a unit must be in one batch: the caller never
splits a unit over two physical batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = Tensor | Sequence[int] | NDArray[numpy.int64]
"""`[B]`: the unit of each row; best on the host, where they are read."""


@dataclass(frozen=True)
class Units:
    """The rows of each unit of a batch.

    Guarantee: a unit's gradient depends on its own unmasked rows alone, even where a row of another
    unit, or a masked row, holds an infinity.
    """

    unit_of: Tensor
    """`[B]`: the unit of each row, numbered from 0."""
    grid: Tensor
    """`[U, K]`: the rows of each unit, padded with its first row."""
    padding: Tensor
    """`[U, K]` of bool: the entries of the grid that are padding."""
    mask: Tensor | None
    """`[B]` of bool: the rows that count; None if all do."""
    dtype: torch.dtype
    """The type of the weights."""
    in_order: bool
    """Whether the grid is all rows in their order, so that gathering a unit's rows is no copy."""
    whole: bool
    """Whether each unit has K unmasked rows, so that there is neither padding nor a masked row."""

    @cached_property
    def weights(self) -> Tensor:  # -> [B]
        """One over the number of the unit's unmasked rows; 0 for a masked row."""
        keep = torch.ones_like(self.unit_of) if self.mask is None else self.mask
        keep = keep.to(self.dtype)
        present = keep.new_zeros(self.count).index_add_(0, self.unit_of, keep)
        return keep / present.clamp(min=1)[self.unit_of]

    @cached_property
    def grid_weights(self) -> Tensor:  # -> [U, K]
        """The weights of the rows in the grid; 0 for padding."""
        return self.weights[self.grid].masked_fill(self.padding, 0)

    @property
    def count(self) -> int:
        """The number of units, U."""
        return self.grid.shape[0]

    @property
    def ragged(self) -> bool:
        """Whether padding would more than double the rows."""
        return self.grid.numel() > 2 * self.unit_of.numel()

    def average(self, values: Tensor) -> Tensor:  # [B, ...] -> [U, ...]
        """Average each unit's rows."""
        if self.whole:
            return self._by_unit(values).mean(1)
        total = values.new_zeros(self.count, *values.shape[1:])
        return total.index_add_(0, self.unit_of, _weighted(values, self.weights))

    def gather(
        self, values: Tensor, *, weighted: bool = False
    ) -> Tensor:  # [B, T, ...] -> [U, K * T, ...]
        """Concatenate the positions of each unit's rows.

        With `weighted`, each row is divided by the number of the unit's rows, so that the sum over
        positions is an average over rows.
        """
        rows = self._by_unit(values)
        if self.whole:
            rows = rows / self.grid.shape[1] if weighted else rows
        elif weighted:
            rows = _weighted(rows, self.grid_weights)
        else:
            rows = torch.where(_like(self.grid_weights > 0, rows), rows, 0)
        return rows.flatten(1, 2)

    def _by_unit(self, values: Tensor) -> Tensor:  # [B, ...] -> [U, K, ...]
        if self.in_order:
            return torch.unflatten(values, 0, tuple(self.grid.shape))
        return values[self.grid]


def make_units(ids: Ids, mask: Tensor | None, *, like: Tensor) -> Units:
    """Find the units of a batch; ids on the host need no synchronisation with a device."""
    host = _on_host(ids)
    _, unit_of, sizes = numpy.unique(host, return_inverse=True, return_counts=True)
    order = numpy.argsort(unit_of, kind="stable")
    starts = sizes.cumsum() - sizes
    places = numpy.arange(sizes.max())
    padding = places >= sizes[:, None]
    grid = order[starts[:, None] + numpy.where(padding, 0, places)]
    in_order = numpy.array_equal(grid.ravel(), numpy.arange(len(host)))
    return Units(
        unit_of=torch.from_numpy(unit_of).to(like.device),
        grid=torch.from_numpy(grid).to(like.device),
        padding=torch.from_numpy(padding).to(like.device),
        mask=mask,
        dtype=like.dtype,
        in_order=in_order,
        whole=mask is None and not padding.any(),
    )


def row_norms(
    norms: Tensor, mask: Tensor | None, units: Units | None
) -> Tensor:  # [B or U, G] -> [B, G]
    """Return each row's norms, which are its unit's; 0 for masked rows."""
    norms = norms if units is None else norms[units.unit_of]
    return norms if mask is None else norms.where(mask[:, None], 0)


def first_of_units(units: Ids) -> Tensor:  # [B] -> [B] of bool
    """Mark the first row of each unit, on the host, to count every unit once."""
    ids = _on_host(units)
    first = numpy.zeros(len(ids), dtype=bool)
    first[numpy.unique(ids, return_index=True)[1]] = True
    return torch.from_numpy(first)


def _on_host(ids: Ids) -> NDArray[numpy.int64]:
    return ids.cpu().numpy() if isinstance(ids, Tensor) else numpy.asarray(ids)


def _weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Scale by weights over the first dimensions; weight 0 yields 0 even for an infinity."""
    shaped = _like(weights, values)
    return torch.where(shaped > 0, values * shaped.to(values.dtype), 0)


def _like(weights: Tensor, values: Tensor) -> Tensor:
    return weights.view(*weights.shape, *[1] * (values.dim() - weights.dim()))
