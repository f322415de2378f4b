"""Made-up records that look like records: soft strokes for images, normal numbers for tables.

They stand for a victim that nobody has to protect. Everything here is drawn by a public seed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.audit.attacks.box import Box

if TYPE_CHECKING:
    from dppipe.data.base import Task

_STROKES = 4
"""How many points the stroke of an image goes through."""
_DOTS = 40
"""How many dots are drawn between two of them."""
_THICKNESS = 0.07
"""The radius of the pen, as a share of the image's side."""


def made_up_inputs(
    shape: tuple[int, ...], count: int, *, box: Box | None, seed: int
) -> Tensor:  # -> [count, *shape]
    """Return made-up inputs: images with one stroke each in their box, else normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    if len(shape) != 3 or box is None:
        values = torch.randn(count, *shape, generator=generator)
        return values if box is None else values.clamp(box.low, box.high)
    images = torch.stack([_stroke(shape, generator) for _ in range(count)])
    return box.low + (box.high - box.low) * images


def made_up_targets(task: Task, outputs: int, count: int, *, seed: int) -> Tensor:  # -> [count,...]
    """Return made-up targets as the task's loss takes them."""
    generator = torch.Generator().manual_seed(seed)
    if task == "multiclass":
        return torch.randint(outputs, (count,), generator=generator)
    if task == "binary":
        return torch.randint(2, (count,), generator=generator).float()
    return torch.randn(count, outputs, generator=generator)


def _stroke(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:  # -> [*shape] in [0, 1]
    """Draw a line through a few random points, as a pen would."""
    channels, height, width = shape
    points = 0.15 + 0.7 * torch.rand(_STROKES, 2, generator=generator)
    weights = torch.linspace(0, 1, _DOTS)[:, None]
    dots = torch.cat([a + (b - a) * weights for a, b in pairwise(points)])
    rows = (torch.arange(height) + 0.5) / height
    columns = (torch.arange(width) + 0.5) / width
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1)
    distances = torch.cdist(places.reshape(-1, 2), dots).min(dim=1).values
    ink = torch.exp(-0.5 * (distances / _THICKNESS).square()).reshape(height, width)
    return ink.expand(channels, height, width).clone()
