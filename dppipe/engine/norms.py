"""Norms that float32 doesn't under-estimate.

A float32 norm over a row of a million values comes out low by 1e-5 and more, and an under-estimated norm under-clips. Here long
rows are cut into blocks: a norm of each block, then a sum over blocks, right to about 1e-7.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 1024


def row_squares(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Give each row's squared Euclidean norm over all its values, in float32 or wider."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.new_zeros(rows.shape[0], 1)
    whole = flat.shape[1] // BLOCK * BLOCK
    if not whole or flat.shape[1] == BLOCK:
        return torch.linalg.vector_norm(flat, dim=1, dtype=dtype).square_()
    squares = torch.linalg.vector_norm(flat[:, :whole].unflatten(1, (-1, BLOCK)), dim=2, dtype=dtype).square_().sum(1)
    if whole < flat.shape[1]:
        squares += torch.linalg.vector_norm(flat[:, whole:], dim=1, dtype=dtype).square_()
    return squares
