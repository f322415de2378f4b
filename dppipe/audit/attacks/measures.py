"""How close one record is to another: mean squared error, PSNR and structural similarity."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_WINDOW = 7
"""The side of the square in which structures are compared, where an image is that large."""
_LUMINANCE = 0.01
_CONTRAST = 0.03


def mean_squared_error(one: Tensor, other: Tensor) -> float:
    """Return the mean of the squared differences."""
    return float((one.double() - other.double()).square().mean())


def peak_signal_to_noise(mse: float, *, span: float) -> float:
    """Return PSNR in decibels: 10 log10(span^2 / mse); infinite for a perfect copy."""
    return math.inf if mse == 0 else 10 * math.log10(span**2 / mse)


def structural_similarity(one: Tensor, other: Tensor, *, span: float) -> float:
    """Return SSIM of two images `[channels, height, width]`: 1 for equal ones.

    The mean over all windows of

        (2 m1 m2 + c1)(2 s12 + c2) / ((m1^2 + m2^2 + c1)(s1^2 + s2^2 + c2)),

    with means m, variances s^2 and the covariance s12 of a uniform window, c1 = (0.01 span)^2 and
    c2 = (0.03 span)^2 (Wang et al. 2004).
    """
    window = min(_WINDOW, *one.shape[-2:])
    left = one.double()
    right = other.double()
    mean_left = _means(left, window)
    mean_right = _means(right, window)
    # With n - 1 in the denominator, as scikit-image has it.
    size = window**2
    unbiased = size / max(size - 1, 1)
    variance_left = unbiased * (_means(left.square(), window) - mean_left.square())
    variance_right = unbiased * (_means(right.square(), window) - mean_right.square())
    covariance = unbiased * (_means(left * right, window) - mean_left * mean_right)
    first = (_LUMINANCE * span) ** 2
    second = (_CONTRAST * span) ** 2
    above = (2 * mean_left * mean_right + first) * (2 * covariance + second)
    below = (mean_left.square() + mean_right.square() + first) * (
        variance_left + variance_right + second
    )
    return float((above / below).mean())


def nearest(record: Tensor, others: Tensor) -> int:  # [*shape], [n, *shape] -> []
    """Return the index of the record with the smallest squared error."""
    differences = (others.double() - record.double()).flatten(1)
    return int(torch.linalg.vector_norm(differences, dim=1).argmin())


def _means(image: Tensor, window: int) -> Tensor:
    return F.avg_pool2d(image[None], window, stride=1)[0]
