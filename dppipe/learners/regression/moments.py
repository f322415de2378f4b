"""Sums over records of products of features with each other and with targets, without rounding.

    A = sum_i weight_i x_i x_i'    C = sum_i weight_i x_i y_i'

Each row (sqrt(weight) x/X, sqrt(weight) y/Y) is cut to whole multiples of 2^-22. Products of such
numbers are whole multiples of 2^-44, and float64 adds 512 of them exactly, in whichever order; the
sums of such parts are added as integers. So the order of records, and how many there are, doesn't
change what one of them adds: rounding happens at the end alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dppipe.learners.linear.rows import Rows

_STEPS = 2.0**22
"""How many steps of the grid there are from 0 to 1."""
_PART = 512
"""How many rows are multiplied at once: 512 products of at most 2^44 each fit in 53 bits."""
_LOW = 26
"""Bits of a part's sum that are added apart from the others, so that integers don't overflow."""
_PER_COLUMN = 2.0**-16
"""What a computed smallest eigenvalue may be off by in two datasets, per column, in units of X^2.

For fewer than 2^30 units, the matrix itself is off by at most 2^-52 2^30 X^2 in each. LAPACK's
error is a modest function p(d) of the size, times 2^-53 times the largest eigenvalue, at most
2^30 X^2; p(d) is taken as 32 d.
"""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of one dataset; private without noise."""

    squares: Tensor
    """`[d, d]`, symmetric: A."""
    products: Tensor
    """`[d, outputs]`: C times X/Y."""
    smallest: Tensor | None = None
    """`[]`: the smallest eigenvalue of A, where it is released too."""


def sum_moments(rows: Rows, targets: Tensor, *, max_norm: float, target_bound: float) -> Moments:
    """Return the sums over all rows.

    Guarantee: one unit adds at most X^2 in the Frobenius norm to `squares`, and as much to
    `products`, since the weights of its rows sum to at most 1 and cutting to the grid makes no
    number larger. What is returned is the exact sum times a constant, rounded twice.

    Args:
        rows: Rows of norm at most X, with their weights.
        targets: Targets `[n, outputs]` of norm at most Y.
        max_norm: The bound X.
        target_bound: The bound Y.
    """
    share = rows.weights.sqrt()[:, None]
    inputs = rows.inputs * share / max_norm
    scaled = torch.cat([inputs, targets * share / target_bound], 1)
    total = _exact_squares(torch.trunc(scaled * _STEPS)) * (max_norm**2 / _STEPS**2)
    width = inputs.shape[1]
    return Moments(total[:width, :width], total[:width, width:])


def with_smallest(moments: Moments) -> Moments:
    """Return the same sums with the smallest eigenvalue, lessened by what it may be off by.

    Guarantee: one unit moves it by at most X^2, computed as it is. Adding a matrix B that has no
    negative eigenvalue raises an eigenvalue by at most the largest of B (Weyl), which is at most
    its trace.
    """
    smallest = torch.linalg.eigvalsh(moments.squares)[0].clamp_min(0.0)
    return Moments(moments.squares, moments.products, smallest / _slack(moments.squares.shape[0]))


def stack(moments: Moments) -> Tensor:
    """Return the sums as one vector whose norm is that of the matrices.

    A symmetric matrix is its diagonal and its upper triangle times sqrt(2): so noise of one size
    on all numbers is sqrt(2) times smaller off the diagonal.
    """
    upper = _upper(moments.squares.shape[0])
    parts = [
        moments.squares.diagonal(),
        moments.squares[upper[0], upper[1]] * math.sqrt(2),
        moments.products.reshape(-1),
    ]
    if moments.smallest is not None:
        parts.append(moments.smallest.reshape(1))
    return torch.cat(parts)


def unstack(vector: Tensor, *, width: int, outputs: int) -> Moments:
    """Return the sums of which `stack` has made a vector."""
    upper = _upper(width)
    above = width + upper.shape[1]
    end = above + width * outputs
    squares = torch.diag(vector[:width])
    squares[upper[0], upper[1]] = vector[width:above] / math.sqrt(2)
    squares[upper[1], upper[0]] = vector[width:above] / math.sqrt(2)
    smallest = vector[end] * _slack(width) if len(vector) > end else None
    return Moments(squares, vector[above:end].reshape(width, outputs), smallest)


def _slack(width: int) -> float:
    return 1 + width * _PER_COLUMN


def _upper(width: int) -> Tensor:  # -> [2, width (width - 1) / 2]
    return torch.triu_indices(width, width, offset=1)


def _exact_squares(steps: Tensor) -> Tensor:  # [n, k] -> [k, k]
    """Return the product of a matrix of whole numbers up to 2^22 with itself, rounded once."""
    high = torch.zeros(steps.shape[1], steps.shape[1], dtype=torch.int64)
    low = torch.zeros_like(high)
    for start in range(0, len(steps), _PART):
        part = steps[start : start + _PART]
        exact = (part.T @ part).to(torch.int64)
        high += exact >> _LOW
        low += exact & ((1 << _LOW) - 1)
    return high.to(torch.float64) * 2.0**_LOW + low.to(torch.float64)
