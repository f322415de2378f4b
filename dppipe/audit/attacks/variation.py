"""The total variation of images, by which an attacker expects smooth ones."""

from __future__ import annotations

from torch import Tensor


def total_variations(images: Tensor) -> Tensor:  # [n, channels, height, width] -> [n]
    """Return each image's mean absolute difference of neighbouring pixels, down plus across."""
    down = (images[..., 1:, :] - images[..., :-1, :]).abs()
    across = (images[..., 1:] - images[..., :-1]).abs()
    return down.flatten(1).mean(1) + across.flatten(1).mean(1)
