"""From noisy sums to weights: a ridge that outweighs the noise, and a solve that always succeeds.

Everything here is computed from released values and public constants.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dppipe.learners.regression.moments import Moments

_FAILURE = 0.05
"""The probability rho with which the noise on A may be larger than AdaSSP's ridge reckons with."""
_BELOW = 1.96
"""Standard deviations that AdaSSP takes off the noisy smallest eigenvalue."""


def joint_ridge(width: int, noise_std: float) -> float:
    """Return the largest eigenvalue that noise on A reaches: s sqrt(2 d).

    The noise is a symmetric matrix with the standard deviation s on its diagonal and s/sqrt(2) off
    it; the largest of its d eigenvalues is near s sqrt(2 d).
    """
    return noise_std * math.sqrt(2 * width)


def adaptive_ridge(moments: Moments, noise_std: float) -> float:
    """Return the ridge of AdaSSP (Wang 2018, algorithm 2): less where A has no small eigenvalue."""
    width = moments.squares.shape[0]
    smallest = 0.0 if moments.smallest is None else float(moments.smallest)
    sure = max(0.0, smallest - _BELOW * noise_std)
    needed = noise_std * math.sqrt(width * math.log(2 * width**2 / _FAILURE))
    return max(0.0, needed - sure)


def solve_ridge(moments: Moments, *, ridge: float, noise_std: float) -> Tensor:
    """Return the weights `[outputs, d]` for the targets that `moments` has sums of.

    Noise may make A indefinite. So negative eigenvalues are raised to 0, and the ridge is added to
    all. A direction with no more than the noise's standard deviation is left out: its weight is 0.
    Without noise, that is a direction in which the rows have no more than rounding.
    """
    values, vectors = torch.linalg.eigh(moments.squares)
    raised = values.clamp_min(0.0) + ridge
    width = len(values)
    least = noise_std or float(values.clamp_min(0.0).sum()) * width * 2.0**-40
    inverse = torch.where(raised > least, 1 / raised, 0.0)
    weights: Tensor = (vectors * inverse) @ (vectors.T @ moments.products)
    return weights.T
