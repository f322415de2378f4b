"""The reference that every engine test compares with: one row at a time, in float64, by plain
autograd.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from dppipe.engine import ClippedSum, Engine

NORM_TOLERANCE = 1e-6
"""How far below the loop's a norm may be: the forward pass is float32 here and float64 there."""
RAISED = 200
"""How many times as far above it a norm may be: norms are raised by what rounding could have taken
from them.
"""
SUM_TOLERANCE = 1e-4


def scalar_loss(model: nn.Module, batch: Any) -> Tensor:
    """A loss of every output, for modules that aren't classifiers."""
    return torch.tanh(model(*batch).flatten(1)).sum(1) * 2


@dataclass(frozen=True)
class Reference:
    """What a float64 loop gives."""

    norms: Tensor
    sums: dict[str, Tensor]
    bound: float

    def agrees_with(
        self,
        result: ClippedSum,
        *,
        norm_tolerance: float = NORM_TOLERANCE,
        sum_tolerance: float = SUM_TOLERANCE,
    ) -> None:
        assert result.norms.shape == self.norms.shape
        error = (result.norms.double() - self.norms) / self.norms.clamp(min=1e-12)
        assert (error >= -norm_tolerance).all(), f"signed errors of the norms: {error}"
        assert (error <= RAISED * norm_tolerance).all(), f"signed errors of the norms: {error}"
        assert result.sums.keys() == self.sums.keys()
        clipped = min(self.bound, float(self.norms.max()) if self.norms.numel() else 0.0)
        for name, expected in self.sums.items():
            difference = float((result.sums[name].double() - expected).abs().max())
            assert difference <= sum_tolerance * max(
                float(expected.abs().max()), 1e-2 * clipped, 1e-12
            ), name


def loop(
    model: nn.Module,
    batch: Any,
    *,
    loss: Callable[[nn.Module, Any], Tensor] = scalar_loss,
    bound: float = 1.0,
    mask: Sequence[bool] | None = None,
    units: Sequence[int] | None = None,
    groups: Callable[[str], str] = lambda name: "all",
) -> Reference:
    """Clip at `bound` in every group, one unit at a time, in float64."""
    wide = copy.deepcopy(model).double()
    batch = tree_map(
        lambda leaf: leaf.contiguous().double() if leaf.is_floating_point() else leaf, batch
    )
    parameters = {
        name: parameter for name, parameter in wide.named_parameters() if parameter.requires_grad
    }
    columns = {
        group: i for i, group in enumerate(dict.fromkeys(groups(name) for name in parameters))
    }
    rows = len(torch.utils._pytree.tree_leaves(batch)[0])
    ids = list(range(rows)) if units is None else list(units)
    kept = [True] * rows if mask is None else list(mask)
    sums = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    norms = torch.zeros(rows, len(columns), dtype=torch.float64)
    for unit in dict.fromkeys(ids):
        members = [i for i in range(rows) if ids[i] == unit and kept[i]]
        if not members:
            continue
        average = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        for i in members:
            row = tree_map(lambda leaf, i=i: leaf[i : i + 1], batch)
            found = torch.autograd.grad(
                loss(wide, row).sum(),
                list(parameters.values()),
                allow_unused=True,
                materialize_grads=True,
            )
            for name, gradient in zip(parameters, found, strict=True):
                average[name] += gradient / len(members)
        squares = torch.zeros(len(columns), dtype=torch.float64)
        for name, gradient in average.items():
            squares[columns[groups(name)]] += gradient.square().sum()
        norms[members] = squares.sqrt()
        factors = (bound / squares.sqrt()).clamp(max=1)
        for name, gradient in average.items():
            sums[name] += factors[columns[groups(name)]] * gradient
    return Reference(norms, {name: total.detach() for name, total in sums.items()}, bound)


def run(
    model: nn.Module,
    batch: Any,
    clipper: Any,
    *,
    loss: Any = scalar_loss,
    kernels: Any = None,
    **options: Any,
) -> tuple[ClippedSum, Engine]:
    """Run the engine as `clipped_sum` does, and keep it to be asked what it did."""
    with Engine(model, loss, clipper, kernels=kernels) as engine:
        sums = engine.zeros()
        norms = engine.accumulate(batch, sums, bounds=engine.bounds(), **options)
    return ClippedSum(sums, norms), engine


@pytest.fixture(name="loop")
def loop_fixture() -> Any:
    return loop


@pytest.fixture(name="run")
def run_fixture() -> Any:
    return run
