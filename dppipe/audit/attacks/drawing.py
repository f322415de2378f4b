"""One input as a part of a picture: an image as an image, a row of a table as stems."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dppipe.audit.attacks.box import Box

_MOST_STEMS = 60
"""How many numbers of a long row are drawn."""


def draw_input(axes: Any, record: Tensor, *, limits: Box | None, beside: Tensor) -> None:
    """Draw an input on axes without ticks.

    Args:
        axes: Where to draw.
        record: The input.
        limits: The range of its numbers, where it is known.
        beside: The input that decides the range where none is known.
    """
    axes.set_xticks([])
    axes.set_yticks([])
    if record.dim() == 3 and record.shape[0] in (1, 3):
        _draw_image(axes, record, limits=limits, beside=beside)
        return
    values = record.flatten()[:_MOST_STEMS].tolist()
    most = max(float(beside.abs().max()), 1e-9) * 1.3
    axes.axhline(0, color="0.8", linewidth=0.6)
    axes.vlines(range(len(values)), 0, values, color="#1f4e79", linewidth=1.1)
    axes.set_ylim(-most, most)


def _draw_image(axes: Any, image: Tensor, *, limits: Box | None, beside: Tensor) -> None:
    low = limits.low if limits is not None else float(beside.min())
    high = limits.high if limits is not None else float(beside.max())
    scaled = ((image - low) / max(high - low, 1e-12)).clamp(0, 1)
    if image.shape[0] == 1:
        axes.imshow(scaled[0].numpy(), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    else:
        axes.imshow(scaled.permute(1, 2, 0).numpy(), interpolation="nearest")
