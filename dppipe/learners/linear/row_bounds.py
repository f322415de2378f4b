"""Vectors of bounded norm: each is scaled by a function of itself and of public constants.

With a bias, a row is `(sqrt(1 - s) x, sqrt(s) X)`, where x is the scaled vector of norm at most X
and s is `BIAS_SHARE`. Its squared norm is at most `(1 - s) X^2 + s X^2 = X^2`: the constant
coordinate stands inside the bound.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Scale = Literal["clip", "unit"]
"""`clip` shortens vectors that are longer than the bound; `unit` gives each the bound's length."""

BIAS_SHARE = 0.5
"""The share of the squared bound that the bias coordinate takes: a public constant."""
_ROUNDING = 2.0**-52


def bound_vectors(vectors: Tensor, *, max_norm: float, scale: Scale) -> Tensor:
    """Return vectors `[..., d]` in float64, each scaled to a norm of at most `max_norm`.

    Guarantee: each vector is a function of itself alone. Its norm is at most
    `max_norm (1 - 8 u)`, u = 2^-52, also after rounding: a computed norm of d numbers is within
    `(d + 2) u` of the true one, products and quotients within u, and vectors are scaled to
    `max_norm (1 - (d + 16) u)`. Numbers are divided by the largest of them first, so that no
    square overflows or vanishes. Vectors must be finite; zeros stay zero.
    """
    vectors = vectors.to(torch.float64)
    peak = vectors.abs().amax(-1, keepdim=True)
    shape = vectors / torch.where(peak > 0, peak, 1.0)
    length = torch.linalg.vector_norm(shape, dim=-1, keepdim=True)
    largest = max_norm * (1 - (vectors.shape[-1] + 16) * _ROUNDING)
    scaled: Tensor = shape / length.clamp_min(1.0) * largest
    if scale == "unit":
        return scaled
    return torch.where(peak * length <= largest, vectors, scaled)


def bias_coordinate(max_norm: float) -> float:
    """Return the constant that stands in a row for the bias."""
    return math.sqrt(BIAS_SHARE) * max_norm * (1 - 16 * _ROUNDING)


def feature_factor(*, bias: bool) -> float:
    """Return the factor of the scaled features in a row, which leaves room for the bias."""
    return math.sqrt(1 - BIAS_SHARE) if bias else 1.0
