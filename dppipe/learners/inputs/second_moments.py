"""The sum of x x' over bounded rows, as a vector: exact, so that one unit moves it by its own part.

1. Each row is scaled to a norm of at most 1, and cut off (towards 0, so that it gets no longer) to
   multiples of 2^-18. Products of such rows are integers times 2^-36.
2. Integers below 2^53 are exact in float64, whatever the order of a sum: 2^16 rows have products
   that add up to at most 2^52. Their sums are added as 64-bit integers, exact for 2^26 rows.
3. So the sum of integers changes by one unit's own matrix and nothing else. It is then rounded to
   float64, entry by entry: at most 2^-53 of an entry, and three roundings follow. With n rows the
   matrix has a norm of at most n, so two neighbours' roundings differ by at most 8 n 2^-53, which
   is at most 2^-24 for 2^26 rows; the sensitivity has a slack of 2^-22.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.errors import UsageError
from dppipe.learners.linear.row_bounds import bound_vectors

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_STEPS = 2.0**18
_BATCH = 4096
MOST_ROWS = 2**26


def second_moments(
    inputs: Tensor, users: NDArray[numpy.int64] | None, *, max_norm: float
) -> Tensor:  # [n, ...] -> [d (d + 1) / 2]
    """Return the sum of x x' over clipped rows, or over users' averages, as a vector.

    Guarantee: a row is clipped to `max_norm` by a function of itself alone; one that isn't finite
    counts as zero. A user's rows have weights that sum to at most 1.
    """
    if len(inputs) > MOST_ROWS:
        raise UsageError(f"data.features: expected at most {MOST_ROWS} records for pca, got more.")
    flat = inputs.flatten(1)
    width = flat.shape[1]
    usable = flat.isfinite().all(1)
    weights = _weights(usable, users)
    total = torch.zeros(width, width, dtype=torch.int64)
    for start in range(0, len(flat), _BATCH):
        part = slice(start, start + _BATCH)
        rows = torch.where(usable[part, None], flat[part].to(torch.float64), 0.0)
        rows = bound_vectors(rows, max_norm=max_norm, scale="clip") / max_norm
        steps = (rows * weights[part, None] * _STEPS).trunc()
        total += (steps.T @ steps).to(torch.int64)
    return to_vector(total.to(torch.float64) * (max_norm / _STEPS) ** 2)


def _weights(usable: Tensor, users: NDArray[numpy.int64] | None) -> Tensor:  # [n] -> [n]
    """Return what each row is multiplied by: the root of one over its user's usable records."""
    if users is None:
        return torch.ones(len(usable), dtype=torch.float64)
    owners = torch.from_numpy(users)
    counts = torch.bincount(owners, weights=usable.to(torch.float64))
    # A little below, so that rounding makes no user's weights more than 1.
    return (1 / counts.clamp_min(1.0)[owners]).sqrt() * (1 - 2.0**-50)


def to_vector(matrix: Tensor) -> Tensor:  # [d, d] -> [d (d + 1) / 2]
    """Return the upper half of a symmetric matrix, as a vector of the matrix's Frobenius norm."""
    rows, columns = torch.triu_indices(*matrix.shape)
    return matrix[rows, columns] * _factors(rows == columns, beside=math.sqrt(2.0))


def to_matrix(vector: Tensor, width: int) -> Tensor:  # [d (d + 1) / 2] -> [d, d]
    """Return the symmetric matrix of a vector of `to_vector`."""
    rows, columns = torch.triu_indices(width, width)
    entries = vector * _factors(rows == columns, beside=math.sqrt(0.5))
    matrix = torch.zeros(width, width, dtype=torch.float64)
    matrix[rows, columns] = entries
    matrix[columns, rows] = entries
    return matrix


def _factors(on_diagonal: Tensor, *, beside: float) -> Tensor:  # [n] -> [n]
    """Return 1 for entries on the diagonal, and another number for those beside it."""
    factors = torch.full(on_diagonal.shape, beside, dtype=torch.float64)
    factors[on_diagonal] = 1.0
    return factors
