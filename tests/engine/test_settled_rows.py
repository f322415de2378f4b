"""How rows are evaluated is settled before records come: an error that one causes changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dppipe.clipping import Flat
from dppipe.engine import Engine


class Odd(nn.Module):
    """Uses its weight in a way that no rule knows, and raises when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
        self.raises = False

    def forward(self, x: Tensor) -> Tensor:
        if self.raises:
            raise ValueError("a bad record")
        return torch.einsum("bi,ij->bj", x, self.w)


def losses(model: nn.Module, batch: tuple[Tensor]) -> Tensor:
    return model(batch[0]).square().sum(1)


@pytest.mark.parametrize("settled", [True, False])
def test_an_error_in_a_row_changes_how_later_rows_run_only_before_records_come(
    settled: bool,
) -> None:
    model = nn.Sequential(nn.Linear(3, 3), Odd())
    engine = Engine(model, losses, Flat())
    batch = (torch.randn(4, 3),)
    engine.prepare(batch)
    assert engine.layout.fallback == {"1"} or list(engine.layout.fallback) == ["1"]
    evaluated = model[1].__dict__["forward"]
    if settled:
        engine.gradients.settle()
    model[1].raises = True
    with pytest.raises(ValueError, match="bad record"):
        engine.gradients_of([batch])
    assert evaluated._vmap is settled
