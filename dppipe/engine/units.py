"""Units: rows that belong to one privacy unit (a user's records, the augmentations of one example).

The gradients of a unit's rows are averaged before norm and clip, so that the unit, however many rows it has, counts for one
bound. A unit must stand whole in one batch: the caller never splits one over two pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = Tensor | Sequence[int] | NDArray[numpy.int64]
"""`[B]`: the unit of each row; best on the host, where they are looked at."""


@dataclass(frozen=True)
class Units:
    """The rows of each unit of a batch.

    Guarantee: what is formed for a unit depends on its own unmasked rows alone, even where a row of another unit, or a masked
    row, holds an infinity.
    """

    slots: Tensor
    """`[B]`: the unit of each row, numbered from 0."""
    weights: Tensor
    """`[B]`: one over the number of the unit's unmasked rows; 0 for a masked row."""
    grid: Tensor
    """`[U, K]`: the rows of each unit, filled up with its first row."""
    grid_weights: Tensor
    """`[U, K]`: the weights of those rows, 0 for what was filled up."""
    in_order: bool
    """Whether the grid is all rows in their order, so that laying a unit's rows side by side moves nothing."""

    @property
    def count(self) -> int:
        """The number of units, U."""
        return self.grid.shape[0]

    @property
    def ragged(self) -> bool:
        """Whether filling up would more than double the rows."""
        return self.grid.numel() > 2 * self.slots.numel()

    def average(self, values: Tensor) -> Tensor:  # [B, ...] -> [U, ...]
        """Average each unit's rows."""
        total = values.new_zeros(self.count, *values.shape[1:])
        return total.index_add_(0, self.slots, _weighted(values, self.weights))

    def gather(self, values: Tensor, *, weighted: bool = False) -> Tensor:  # [B, T, ...] -> [U, K * T, ...]
        """Lay the positions of each unit's rows side by side; `weighted` makes their sum the average."""
        rows = torch.unflatten(values, 0, tuple(self.grid.shape)) if self.in_order else values[self.grid]
        scaled = _weighted(rows, self.grid_weights) if weighted else torch.where(_like(self.grid_weights > 0, rows), rows, 0)
        return scaled.flatten(1, 2)


def make_units(ids: Ids, mask: Tensor | None, *, like: Tensor) -> Units:
    """Find the units of a batch; ids that stand on the host cost no synchronisation with a device."""
    host = _on_host(ids)
    _, slots, sizes = numpy.unique(host, return_inverse=True, return_counts=True)
    order, starts = numpy.argsort(slots, kind="stable"), sizes.cumsum() - sizes
    places = numpy.arange(sizes.max())
    filled = places >= sizes[:, None]
    grid = order[starts[:, None] + numpy.where(filled, 0, places)]
    in_order = numpy.array_equal(grid.ravel(), numpy.arange(len(host)))
    on_device = [torch.from_numpy(array).to(like.device) for array in (slots, grid, filled)]
    return _weigh(on_device[0], on_device[1], on_device[2], mask, in_order=in_order, like=like)


def _weigh(slots: Tensor, grid: Tensor, filled: Tensor, mask: Tensor | None, *, in_order: bool, like: Tensor) -> Units:
    """Weigh each row by one over the number of its unit's unmasked rows."""
    keep = torch.ones(slots.shape, dtype=like.dtype, device=like.device) if mask is None else mask.to(like.dtype)
    present = torch.zeros(len(grid), dtype=like.dtype, device=like.device).index_add_(0, slots, keep)
    weights = keep / present.clamp(min=1)[slots]
    return Units(slots, weights, grid, weights[grid].masked_fill(filled, 0), in_order)


def first_of_units(units: Ids) -> Tensor:  # [B] -> [B] of bool
    """Mark the first row of each unit, on the host, to count every unit once."""
    ids = _on_host(units)
    first = numpy.zeros(len(ids), dtype=bool)
    first[numpy.unique(ids, return_index=True)[1]] = True
    return torch.from_numpy(first)


def _on_host(ids: Ids) -> NDArray[numpy.int64]:
    return ids.cpu().numpy() if isinstance(ids, Tensor) else numpy.asarray(ids)


def _weighted(values: Tensor, weights: Tensor) -> Tensor:
    """Scale by weights over the first dimensions; weight 0 gives 0 even where an infinity stands."""
    shaped = _like(weights, values)
    return torch.where(shaped > 0, values * shaped.to(values.dtype), 0)


def _like(weights: Tensor, values: Tensor) -> Tensor:
    return weights.view(*weights.shape, *[1] * (values.dim() - weights.dim()))
