"""Orientation histograms by operations that a graph has: the same sums as matrix products.

`dppipe/data/features/gradient_histograms.py` says what is computed, in the same order of steps. The
products here are rounded by the program that runs the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dppipe.data.features.gradient_histograms import FLOOR, TINY


def histograms_in_graph(
    inputs: Tensor, *, orientations: int, grids: Sequence[int]
) -> Tensor:  # [n, channels, h, w] -> [n, orientations * sum of grids squared]
    """Return the features of each image."""
    counts = _directions(inputs, orientations)
    parts = [_grid(counts, cells) for cells in grids]
    return torch.cat(parts, dim=1) / math.sqrt(len(grids))


def _directions(images: Tensor, orientations: int) -> Tensor:  # [n, c, h, w] -> [n, o, h, w]
    """Return how much each pixel's gradient counts for each direction."""
    down = _differences(images.transpose(2, 3)).transpose(2, 3)
    right = _differences(images)
    length = (down * down + right * right).sqrt()
    found = []
    for number in range(orientations):
        angle = 2 * math.pi * number / orientations
        along = right * math.cos(angle) + down * math.sin(angle)
        share = along.clamp(min=0) / (length + TINY)
        for _ in range(3):  # to the power of 8
            share = share * share
        found.append((length * share).sum(dim=1))
    return torch.stack(found, dim=1)


def _differences(images: Tensor) -> Tensor:  # [n, c, h, w] -> [n, c, h, w]
    """Return the difference of the two neighbours of each pixel in its row."""
    after = torch.cat([images[..., 1:], images[..., -1:]], dim=3)
    before = torch.cat([images[..., :1], images[..., :-1]], dim=3)
    return after - before


def _grid(counts: Tensor, cells: int) -> Tensor:  # [n, o, h, w] -> [n, o * cells^2]
    """Return the features of one grid."""
    rows = _weights(counts.shape[2], cells).to(counts)
    columns = _weights(counts.shape[3], cells).to(counts)
    pooled = (columns @ counts.transpose(2, 3) @ rows.T).flatten(2)  # [n, o, cells^2]
    norms = (pooled * pooled).sum(dim=1, keepdim=True).sqrt()
    mean = norms.mean(dim=2, keepdim=True)
    local = (pooled / (norms + FLOOR * mean + TINY)).flatten(1)
    centred = local - local.mean(dim=1, keepdim=True)
    return centred / ((centred * centred).sum(dim=1, keepdim=True).sqrt() + TINY)


def _weights(side: int, cells: int) -> Tensor:  # -> [cells, side]
    """Return how much each pixel of a side counts for each cell along it."""
    weights = [[0.0] * side for _ in range(cells)]
    for pixel in range(side):
        place = (pixel + 0.5) * cells / side - 0.5
        for cell in range(max(0, math.floor(place)), min(cells, math.floor(place) + 2)):
            weights[cell][pixel] = 1 - abs(place - cell)
    return torch.tensor(weights, dtype=torch.float64)
