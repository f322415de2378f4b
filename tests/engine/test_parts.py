"""Batches whose rows have several shapes: a user's rows count together, whichever parameters each
of them uses.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dppipe.clipping import Flat
from dppipe.engine import Engine

BOUND = 0.3


class ByLength(nn.Module):
    """Uses one of its layers for long rows alone."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(2, 1)
        self.rest = nn.Linear(3, 1)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.start(rows[:, :2])
        return found + self.rest(rows[:, 2:]) if rows.shape[1] > 2 else found


def loss(model: nn.Module, rows: Tensor) -> Tensor:
    return model(rows).squeeze(1).square()


def clipped_average(model: nn.Module, rows: list[Tensor]) -> dict[str, Tensor]:
    """Return what one user's rows count for, one row at a time by plain autograd."""
    model.zero_grad()
    total = sum(loss(model, row[None]).sum() for row in rows) / len(rows)
    total.backward()
    gradient = {
        name: p.grad if p.grad is not None else torch.zeros_like(p)
        for name, p in model.named_parameters()
    }
    norm = torch.stack([value.norm() for value in gradient.values()]).norm()
    return {name: value * (BOUND / norm).clamp(max=1) for name, value in gradient.items()}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["short first", "long first"])
def test_a_user_with_rows_of_two_shapes_counts_for_one_clipped_average_of_all_parameters(order):
    torch.manual_seed(0)
    model, parts = ByLength(), [torch.randn(3, 2), torch.randn(2, 5)]
    owners = [[7, 8, 7], [8, 8]]
    chosen = [parts[place] for place in order]
    units = [owner for place in order for owner in owners[place]]
    with Engine(model, loss, Flat(max_grad_norm=BOUND)) as engine:
        sums = engine.zeros()
        engine.accumulate_parts(chosen, sums, bounds=engine.bounds(), units=units)
    mine = clipped_average(model, [parts[0][0], parts[0][2]])
    other = clipped_average(model, [parts[0][1], parts[1][0], parts[1][1]])
    for name, found in sums.items():
        torch.testing.assert_close(found, mine[name] + other[name], rtol=1e-4, atol=1e-6)
    assert sums["rest.weight"].norm() > 0.01
