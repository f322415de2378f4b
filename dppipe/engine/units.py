"""Units: rows that belong to one privacy unit (a user's records, the augmentations of one example).

The gradients of a unit's rows are averaged before norm and clip, so that the unit, however many rows it has, counts for one
bound. A unit must stand whole in one batch: the caller never splits one over two pieces.
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
"""`[B]`: the unit of each row; best on the host, where they are looked at."""


@dataclass(frozen=True)
class Units:
    """The rows of each unit of a batch.

    Guarantee: what is formed for a unit depends on its own unmasked rows alone, even where a row of another unit, or a masked
    row, holds an infinity.
    """

    slots: Tensor
    """`[B]`: the unit of each row, numbered from 0."""
    grid: Tensor
    """`[U, K]`: the rows of each unit, filled up with its first row."""
    filled: Tensor
    """`[U, K]` of bool: what was filled up."""
    mask: Tensor | None
    """`[B]` of bool: the rows that count, where not all do."""
    dtype: torch.dtype
    """The type of the weights."""
    in_order: bool
    """Whether the grid is all rows in their order, so that laying a unit's rows side by side moves nothing."""
    whole: bool
    """Whether each unit has K unmasked rows, so that nothing was filled up or has to be left out."""

    @cached_property
    def weights(self) -> Tensor:  # -> [B]
        """One over the number of the unit's unmasked rows; 0 for a masked row."""
        keep = torch.ones_like(self.slots) if self.mask is None else self.mask
        keep = keep.to(self.dtype)
        present = keep.new_zeros(self.count).index_add_(0, self.slots, keep)
        return keep / present.clamp(min=1)[self.slots]

    @cached_property
    def grid_weights(self) -> Tensor:  # -> [U, K]
        """The weights of the rows in the grid, 0 for what was filled up."""
        return self.weights[self.grid].masked_fill(self.filled, 0)

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
        if self.whole:
            return self._side_by_side(values).mean(1)
        total = values.new_zeros(self.count, *values.shape[1:])
        return total.index_add_(0, self.slots, _weighted(values, self.weights))

    def gather(
        self, values: Tensor, *, weighted: bool = False
    ) -> Tensor:  # [B, T, ...] -> [U, K * T, ...]
        """Lay the positions of each unit's rows side by side; `weighted` makes their sum the average."""
        rows = self._side_by_side(values)
        if self.whole:
            rows = rows / self.grid.shape[1] if weighted else rows
        elif weighted:
            rows = _weighted(rows, self.grid_weights)
        else:
            rows = torch.where(_like(self.grid_weights > 0, rows), rows, 0)
        return rows.flatten(1, 2)

    def _side_by_side(self, values: Tensor) -> Tensor:  # [B, ...] -> [U, K, ...]
        return (
            torch.unflatten(values, 0, tuple(self.grid.shape))
            if self.in_order
            else values[self.grid]
        )


def make_units(ids: Ids, mask: Tensor | None, *, like: Tensor) -> Units:
    """Find the units of a batch; ids that stand on the host cost no synchronisation with a device."""
    host = _on_host(ids)
    _, slots, sizes = numpy.unique(host, return_inverse=True, return_counts=True)
    order, starts = numpy.argsort(slots, kind="stable"), sizes.cumsum() - sizes
    places = numpy.arange(sizes.max())
    filled = places >= sizes[:, None]
    grid = order[starts[:, None] + numpy.where(filled, 0, places)]
    in_order = numpy.array_equal(grid.ravel(), numpy.arange(len(host)))
    return Units(
        slots=torch.from_numpy(slots).to(like.device),
        grid=torch.from_numpy(grid).to(like.device),
        filled=torch.from_numpy(filled).to(like.device),
        mask=mask,
        dtype=like.dtype,
        in_order=in_order,
        whole=mask is None and not filled.any(),
    )


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
