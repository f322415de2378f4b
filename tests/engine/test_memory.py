"""The physical batch size follows from memory and made-up input alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dppipe.clipping import Flat
from dppipe.engine import Engine, find_physical_batch_size
from dppipe.engine.memory import LiveBytes, memory_left, step_bytes


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def synthetic(rows):
    return torch.zeros(rows, 3, 16, 16), torch.zeros(rows, dtype=torch.long)


def engine():
    return Engine(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 196, 10)), loss, Flat())


def test_bytes_of_live_tensors_are_counted():
    with LiveBytes() as live:
        first = torch.zeros(1000)
        second = first + 1
        del first
        _ = torch.zeros(500), second.view(10, 100)
    assert live.peak == 8000


def test_the_size_found_uses_the_memory_given():
    with engine() as made:
        size = find_physical_batch_size(made, synthetic, limit=10_000, memory=20_000_000)
        assert 15_000_000 < step_bytes(made, synthetic(size)) <= 20_000_000


@pytest.mark.parametrize(("limit", "memory", "expected"), [(7, 10**12, 7), (100, 1, 1)])
def test_limits_hold(limit, memory, expected):
    with engine() as made:
        assert find_physical_batch_size(made, synthetic, limit=limit, memory=memory) == expected


def test_memory_left_is_known():
    assert memory_left(torch.device("cpu")) > 2**20


def test_memory_is_given_back_after_a_step():
    """A tape that was kept alive by the history of what it holds would hold a whole step's tensors."""
    with engine() as made:
        sums, bounds = made.zeros(), made.bounds()
        made.prepare(synthetic(4))
        with LiveBytes() as live:
            made.accumulate(synthetic(4), sums, bounds=bounds)
        assert live._now < 1000
