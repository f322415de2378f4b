"""Norms that float32 doesn't under-estimate.

A float32 norm over a row of a million values comes out low by 1e-5 and more, and an under-estimated norm under-clips. Here long
rows are cut into blocks: a norm of each block, then a sum over blocks, right to about 1e-7. Sums that may cancel are raised by
their rounding error, so that it can over-estimate a norm and never under-estimate it.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

BLOCK = 1024
"""The longest block."""


def row_squares(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Give each row's squared Euclidean norm over all its values, in float32 or wider."""
    flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.new_zeros(rows.shape[0], 1)
    block = block_of(flat.shape[1])
    whole = flat.shape[1] // block * block
    if whole == block == flat.shape[1]:
        return _squares(flat)
    squares = _squares(torch.unflatten(flat[:, :whole], 1, (-1, block))).sum(1)
    return squares if whole == flat.shape[1] else squares + _squares(flat[:, whole:])


@lru_cache
def block_of(size: int) -> int:
    """Give the length of the blocks that a row of this size is cut into: equal ones, where it has a divisor for that."""
    return next((block for block in range(min(size, BLOCK), BLOCK // 4, -1) if size % block == 0), min(size, BLOCK))


def row_sizes(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Give each row's sum of absolute values, added up in float64."""
    return rows.reshape(rows.shape[0], -1).abs().sum(1, dtype=torch.float64)


def gram_squares(products: Tensor) -> Tensor:  # [B, T, T] -> [B]
    """Sum the entrywise product of two Gram matrices into squared norms, raised by what rounding may have taken from them.

    Where positions cancel, the sum is far smaller than its diagonal, and an error at the diagonal's size may hide most of it.
    """
    diagonal = products.diagonal(dim1=1, dim2=2).sum(1)
    return (products.flatten(1).sum(1) + slack(diagonal)).clamp_(min=0)


def slack(parts: Tensor) -> Tensor:
    """Give what rounding may take from a sum of squares and cross terms whose squares add up to `parts`."""
    return parts * (2 * torch.finfo(parts.dtype).eps)


def _squares(values: Tensor) -> Tensor:  # [..., n] -> [...]
    dtype = torch.promote_types(values.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1, dtype=dtype)
    return norms.square_()
