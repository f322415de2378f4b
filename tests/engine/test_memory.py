"""The physical batch size follows from memory and made-up input alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dppipe.clipping import Flat, Jl
from dppipe.engine import Engine, find_physical_batch_size, memory
from dppipe.engine.memory import (
    HOST_BYTES,
    HOST_ROWS,
    LiveBytes,
    memory_left,
    step_bytes,
    whole_memory,
)


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def synthetic(rows):
    return torch.zeros(rows, 3, 16, 16), torch.zeros(rows, dtype=torch.long)


def engine():
    return Engine(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 196, 10)),
        loss,
        Flat(),
    )


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
        assert (
            step_bytes(made, synthetic(size)) <= 20_000_000 < step_bytes(made, synthetic(4 * size))
        )
        assert size.bit_count() == 1


@pytest.mark.parametrize(("limit", "memory", "expected"), [(7, 10**12, 7), (100, 1, 1)])
def test_limits_hold(limit, memory, expected):
    with engine() as made:
        assert find_physical_batch_size(made, synthetic, limit=limit, memory=memory) == expected


def test_memory_is_known_and_a_containers_limit_counts(tmp_path, monkeypatch):
    device = torch.device("cpu")
    assert 2**20 < memory_left(device) <= whole_memory(device)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert (memory_left(device), whole_memory(device)) == (2e6, 3e6)
    (tmp_path / "memory.max").write_text("max\n")
    assert whole_memory(device) > 3e6


def test_a_steady_answer_does_not_follow_the_memory_that_is_left(monkeypatch):
    found = []
    for left in (1e5, 1e12):
        monkeypatch.setattr(memory, "memory_left", lambda device, left=left: left)
        with engine() as made:
            found.append(
                [
                    find_physical_batch_size(made, synthetic, limit=9999, steady=steady)
                    for steady in (True, False)
                ]
            )
    assert found[0][0] == found[1][0]
    assert found[0][1] < found[1][1]


def test_on_a_cpu_a_piece_is_no_larger_than_what_it_works_through_at_full_speed():
    def small(rows):
        return torch.zeros(rows, 3), torch.zeros(rows, dtype=torch.long)

    def large(rows):
        return torch.zeros(rows, 3, 512, 512), torch.zeros(rows, dtype=torch.long)

    with Engine(nn.Linear(3, 2), loss, Flat()) as made:
        assert find_physical_batch_size(made, small, limit=10**6) == HOST_ROWS[1]
    with engine() as made:
        size = find_physical_batch_size(made, synthetic, limit=10**6)
        assert (
            step_bytes(made, synthetic(size)) <= HOST_BYTES < step_bytes(made, synthetic(4 * size))
        )
    pooled = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    with Engine(pooled, loss, Flat()) as made:
        assert find_physical_batch_size(made, large, limit=10**6) == HOST_ROWS[0]


def test_memory_that_grows_faster_than_the_rows_is_found_by_trying():
    class Pairs(nn.Module):
        """Holds a value for every pair of rows, and uses none of another row's."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            held = torch.ones(len(x), len(x), 100) * x[:, :1, None].detach()
            return self.layer(x) + 0 * held.diagonal().T.sum(1, keepdim=True)

    def rows_of_four(rows):
        return torch.zeros(rows, 4), torch.zeros(rows, dtype=torch.long)

    with Engine(Pairs(), loss, Flat()) as made:
        size = find_physical_batch_size(made, rows_of_four, limit=10**6, memory=10_000_000)
        assert size > 1
        assert (
            step_bytes(made, rows_of_four(size))
            <= 10_000_000
            < step_bytes(made, rows_of_four(2 * size))
        )


@pytest.mark.parametrize(
    ("clipper", "options", "grouped"),
    [
        (Flat(), {}, False),
        (Flat(), {"mode": "functional"}, False),
        (Jl(projections=3), {}, False),
        (Flat(), {}, True),
    ],
    ids=["tape", "functional", "jl", "grouped"],
)
def test_every_engine_is_measured_and_left_as_it_was(clipper, options, grouped):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(8 * 196, 10)
    )
    with Engine(model, loss, clipper, **options) as made:
        before = torch.random.get_rng_state()
        size = find_physical_batch_size(
            made, synthetic, limit=10_000, memory=20_000_000, grouped=grouped
        )
        assert torch.equal(before, torch.random.get_rng_state())
        assert 8 <= size <= 1024
        assert (
            made.gradients._functional._vmap
        )  # a row at a time would be slow, and is chosen once for good


def test_rows_that_belong_to_units_take_more_memory():
    with engine() as made:
        plain, grouped = (
            find_physical_batch_size(made, synthetic, limit=10**5, memory=100_000_000, grouped=each)
            for each in (False, True)
        )
        assert grouped <= plain


def test_memory_is_given_back_after_a_step():
    """A tape kept alive by the history of what it holds would hold a whole step's tensors."""
    with engine() as made:
        sums, bounds = made.zeros(), made.bounds()
        made.prepare(synthetic(4))
        with LiveBytes() as live:
            made.accumulate(synthetic(4), sums, bounds=bounds)
        assert live._now < 1000
