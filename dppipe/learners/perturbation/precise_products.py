"""Products of matrices whose rounding is bounded by proof, from ordinary float64 products.

Each factor is split into a part of few bits and a rest. The products of the parts of few bits add
up without any rounding, in whichever order and with or without fused operations; the rest is so
small that its rounding is negligible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dppipe.learners.perturbation.rounding import CHUNK

_BITS = 21
"""The bits of the first part of each number, below its factor's largest one. Sums of 2^10 products
of such parts, `CHUNK` of them, fit in float64's 53 bits: 2 * 20 + 10 < 53."""


@dataclass(frozen=True)
class Split:
    """A matrix as the sum of two: `high` has 21 bits below its largest number."""

    high: Tensor
    low: Tensor

    @classmethod
    def of(cls, values: Tensor, *, peak: float | None = None) -> Split:
        """Split a matrix.

        Args:
            values: Finite numbers in float64.
            peak: A bound on their sizes; the largest of them where it isn't given.
        """
        largest = float(values.abs().max()) if peak is None and values.numel() else (peak or 0.0)
        if not largest > 0:
            return cls(values, torch.zeros_like(values))
        step = 2.0 ** max(math.ceil(math.log2(largest)) + 1 - _BITS, -1000)
        high = torch.round(values / step) * step
        return cls(high, values - high)

    @property
    def transposed(self) -> Split:
        """The transposed matrix."""
        return Split(self.high.T, self.low.T)


def precise_product(left: Split, right: Split) -> Tensor:  # [m, k], [k, n] -> [m, n]
    """Return a matrix product.

    Guarantee: each number is within `product_round_off(k)` of the exact one, in units of both
    factors' largest numbers, and within two units of round-off, relative to itself. Within a chunk
    the products of high parts are multiples of one power of two and below 2^53 of it, so their sum
    is exact; chunks are added with compensation. Low parts are below 2^-20 of the largest number.
    In a chunk of c products, rounding takes at most c 2^-53 of two sums of c 2^-20 each, and of
    what is carried on, at most k 2^-19, it takes 2^-53 three times.
    """
    total = left.high.new_zeros(left.high.shape[0], right.high.shape[1])
    carried = torch.zeros_like(total)
    for start in range(0, left.high.shape[1], CHUNK):
        inner = slice(start, start + CHUNK)
        l_high, l_low = left.high[:, inner], left.low[:, inner]
        r_high, r_low = right.high[inner], right.low[inner]
        exact = l_high @ r_high
        carried += l_low @ (r_high + r_low) + l_high @ r_low
        added = total + exact
        part = added - total
        carried += (total - (added - part)) + (exact - part)  # what the addition has lost
        total = added
    return total + carried
