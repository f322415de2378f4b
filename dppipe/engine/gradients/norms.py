"""Norms that rounding and underflow can't make too low.

An under-estimated norm under-clips, so every norm here is an upper bound of the true one, for
values of any size. Sums of float32 numbers are kept short: long ones are cut into blocks, and the
blocks are added up in float64. What the float32 part can lose is added back. `ROUNDING.md` has the
proofs; docstrings name its lemmas by number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 128
"""The most terms of a float32 sum."""
SHORT = 32
"""The most products of two Gram matrices that are added up in float32."""


class Rounding(NamedTuple):
    """How a floating-point type rounds."""

    unit: float
    """The largest relative error of one operation."""
    tiny: float
    """The largest absolute error of an operation that underflows, flushed to zero or not."""

    def gamma(self, roundings: int) -> float:
        """Return the largest relative error after this many roundings (lemma 1)."""
        return roundings * self.unit / (1 - roundings * self.unit)


@lru_cache
def rounding_of(dtype: torch.dtype) -> Rounding:
    """Return how a type rounds; half precision is widened before it is computed with."""
    limits = torch.finfo(torch.promote_types(dtype, torch.float32))
    return Rounding(limits.eps / 2, limits.tiny)


def wider(values: Tensor) -> Tensor:
    """Return the values in float64, where the device has it."""
    return values.to(widest(values))


def widest(values: Tensor) -> torch.dtype:
    """Return the widest type that the device has."""
    return torch.float32 if values.is_mps else torch.float64


def row_squares(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Return each row's squared Euclidean norm over all its values, in float64 (lemma 3)."""
    count = rows.shape[0]
    if not rows.numel():
        return rows.new_zeros(count, dtype=widest(rows))
    size = rows.numel() // count
    block = block_of(size)
    if size == block:
        return wider(_norms(rows.reshape(count, size))).square_()
    if size % block == 0:
        return _block_squares(rows.reshape(count, -1, block))
    flat = rows.reshape(count, size)
    whole = size // block * block
    last = wider(_norms(flat[:, whole:])).square_()
    return _block_squares(torch.unflatten(flat[:, :whole], 1, (-1, block))) + last


def _block_squares(blocks: Tensor) -> Tensor:  # [B, blocks, n] -> [B]
    """Return each row's squared norm over all its blocks.

    One operation converts, squares and adds up in float64, and takes a root that is undone.
    """
    norms = _norms(blocks)
    squares: Tensor = torch.linalg.vector_norm(norms, dim=1, dtype=widest(norms)).square_()
    return squares


@lru_cache
def block_of(size: int) -> int:
    """Return the length of the blocks that a row is cut into; a divisor of its size if possible."""
    for block in range(min(size, BLOCK), BLOCK // 4, -1):
        if size % block == 0:
            return block
    return min(size, BLOCK)


def row_sizes(rows: Tensor) -> Tensor:  # [B, ...] -> [B]
    """Return each row's sum of absolute values, added up in float64."""
    return wider(rows.reshape(rows.shape[0], -1).abs()).sum(1)


def raise_norms(norms: Tensor, *, largest: int, unit: float) -> Tensor:  # [B, G] -> [B, G]
    """Raise norms by what rounding may take from them or add to a clipped gradient (lemma 8).

    Args:
        largest: The number of values in the largest group.
        unit: The largest relative error of the types in which norms are computed and returned.
    """
    return norms * (1 + (min(largest, BLOCK) + 10) * unit + 2 * wide_share(largest))


def wide_share(terms: int) -> float:
    """Return the largest share of a sum that adding up so many numbers in float64 may lose."""
    return terms * rounding_of(torch.float64).unit


def _norms(values: Tensor) -> Tensor:  # [..., n] -> [...]
    """Return norms in float32 or wider."""
    dtype = torch.promote_types(values.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1, dtype=dtype)
    return norms
