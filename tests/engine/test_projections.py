"""Estimated norms: the directions that they come from are secret, and new for each batch."""

from __future__ import annotations

import torch
from torch import nn

from dppipe.clipping import Jl
from dppipe.engine import Engine


def estimates(seed: int, *, batches: int = 1) -> list[torch.Tensor]:
    """Return the estimated norms of one batch of four rows, several times, under a public seed."""
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    rows = torch.randn(4, 3)
    with Engine(
        model, lambda model, batch: model(batch).square().sum(1), Jl(projections=5)
    ) as engine:
        bounds = engine.bounds()
        return [engine.accumulate(rows, engine.zeros(), bounds=bounds) for _ in range(batches)]


def test_each_batch_is_seen_along_directions_of_its_own():
    first, second = estimates(1, batches=2)
    assert (first != second).all()


def test_the_public_seed_says_nothing_about_the_directions():
    (first,), (second,) = estimates(1), estimates(1)
    assert (first != second).all()
