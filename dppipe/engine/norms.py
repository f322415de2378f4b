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
    flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.new_zeros(rows.shape[0], 1)
    whole = flat.shape[1] // BLOCK * BLOCK
    if not whole or flat.shape[1] == BLOCK:
        return _squares(flat)
    squares = _squares(torch.unflatten(flat[:, :whole], 1, (-1, BLOCK))).sum(1)
    return squares if whole == flat.shape[1] else squares + _squares(flat[:, whole:])


def row_sizes(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Give each row's sum of absolute values, added up in float64."""
    return rows.reshape(rows.shape[0], -1).abs().sum(1, dtype=torch.float64)


def _squares(values: Tensor) -> Tensor:  # [..., n] -> [...]
    dtype = torch.promote_types(values.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1, dtype=dtype)
    return norms.square_()
