"""Histograms of gradients by direction, in cells of several grids.

1. A gradient is the difference of the neighbours of a pixel, along each axis; images are continued
   by their outermost pixels. Channels are added up.
2. A gradient g counts for the direction d by |g| max(0, cos(g, d))^8: for two neighbouring
   directions of eight.
3. A pixel counts for the cells around it, less with its distance from a cell's centre, to 0 at the
   neighbour's centre.
4. A cell's counts are divided by their norm, plus a quarter of the mean of the norms of all cells
   of the image: weak edges count too, and empty cells stay small.
5. The mean of all counts of a grid is subtracted; each grid's counts are divided by their norm,
   and all of them by the root of the number of grids.

All is done by additions, multiplications, divisions and square roots of single numbers in a fixed
order: they are rounded alike wherever a record stands, so its features don't depend on others even
in the last bit. Records stand in the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_BATCH = 256
FLOOR = 0.25
"""What is added to a cell's norm, as a share of the mean norm of the image's cells."""
TINY = 1e-12


def gradient_histograms(
    inputs: Tensor, *, orientations: int, grids: Sequence[int]
) -> Tensor:  # [n, channels, h, w] -> [n, orientations * sum of grids squared]
    """Return the features of each image, in the images' type."""
    import torch

    width = orientations * sum(cells * cells for cells in grids)
    made = inputs.new_empty(len(inputs), width)
    for start in range(0, len(inputs), _BATCH):
        images = inputs[start : start + _BATCH].permute(1, 2, 3, 0).contiguous()
        counts = _directions(images, orientations)
        parts = [_grid(counts, cells) for cells in grids]
        features = torch.cat(parts) / math.sqrt(len(grids))
        made[start : start + _BATCH] = features.T
    return made


def _directions(images: Tensor, orientations: int) -> Tensor:  # [c, h, w, b] -> [o, h, w, b]
    """Return how much each pixel's gradient counts for each direction."""
    down = _differences(images.transpose(1, 2)).transpose(1, 2)
    right = _differences(images)
    length = (down * down + right * right).sqrt()
    counts = images.new_zeros(orientations, *images.shape[1:])
    for number in range(orientations):
        angle = 2 * math.pi * number / orientations
        along = right * math.cos(angle) + down * math.sin(angle)
        share = along.clamp(min=0) / (length + TINY)
        for _ in range(3):  # to the power of 8
            share = share * share
        each = length * share
        for channel in each:
            counts[number] += channel
    return counts


def _differences(images: Tensor) -> Tensor:  # [c, h, w, b] -> [c, h, w, b]
    """Return the difference of the two neighbours of each pixel in its row."""
    import torch

    first = images[:, :, :1]
    last = images[:, :, -1:]
    after = torch.cat([images[:, :, 1:], last], dim=2)
    before = torch.cat([first, images[:, :, :-1]], dim=2)
    return after - before


def _grid(counts: Tensor, cells: int) -> Tensor:  # [o, h, w, b] -> [o * cells^2, b]
    """Return the features of one grid."""
    pooled = _pooled(_pooled(counts, cells).transpose(1, 2), cells)  # [o, cells, cells, b]
    pooled = pooled.flatten(1, 2)
    norms = _sum(pooled * pooled).sqrt()
    mean = _sum(norms) / len(norms)
    local = (pooled / (norms + FLOOR * mean + TINY)).flatten(0, 1)
    centred = local - _sum(local) / len(local)
    return centred / (_sum(centred * centred).sqrt() + TINY)


def _pooled(counts: Tensor, cells: int) -> Tensor:  # [o, h, w, b] -> [o, cells, w, b]
    """Return weighted sums over the rows around each cell's centre."""
    height = counts.shape[1]
    pooled = counts.new_zeros(counts.shape[0], cells, *counts.shape[2:])
    for row in range(height):
        place = (row + 0.5) * cells / height - 0.5
        for cell in range(max(0, math.floor(place)), min(cells, math.floor(place) + 2)):
            weight = 1 - abs(place - cell)
            pooled[:, cell] += counts[:, row] * weight
    return pooled


def _sum(numbers: Tensor) -> Tensor:  # [n, ...] -> [...]
    """Return the sum over the first dimension, by halves: always in the same order."""
    import torch

    while len(numbers) > 1:
        half = len(numbers) // 2
        added = numbers[:half] + numbers[half : 2 * half]
        numbers = torch.cat([added, numbers[2 * half :]]) if len(numbers) % 2 else added
    return numbers[0]
