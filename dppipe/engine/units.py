"""Units: rows that belong to one privacy unit (a user's records, the augmentations of one example).

The gradients of a unit's rows are averaged before norm and clip, so that the unit, however many rows it has, counts for one
bound. A unit must stand whole in one batch: the caller never splits one over two pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Units:
    """The rows of each unit of a batch."""

    count: int
    """The number of distinct units, U."""
    slots: Tensor
    """`[B]`: the unit of each row, numbered from 0."""
    weights: Tensor
    """`[B]`: one over the number of the unit's unmasked rows; 0 for a masked row."""


def make_units(ids: Tensor | Sequence[int], mask: Tensor | None, *, like: Tensor) -> Units:
    """Number the units of a batch; ids on the host cost no synchronisation."""
    host = torch.as_tensor(ids).cpu()
    distinct, slots = torch.unique(host, return_inverse=True)
    slots = slots.to(like.device)
    keep = torch.ones(slots.shape, dtype=like.dtype, device=like.device) if mask is None else mask.to(like.dtype)
    sizes = torch.zeros(len(distinct), dtype=like.dtype, device=like.device).index_add_(0, slots, keep)
    return Units(len(distinct), slots, keep / sizes.clamp(min=1)[slots])


def first_of_units(units: Tensor | Sequence[int]) -> Tensor:  # [B] -> [B] of bool
    """Mark one row of each unit, to count every unit once."""
    ids = torch.as_tensor(units)
    same = ids[:, None] == ids[None, :]
    return ~same.tril(diagonal=-1).any(dim=1)
