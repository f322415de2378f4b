"""Norms at real sizes, by every kernel: never low by more than the model's own rounding, and raised
by little.
"""

from __future__ import annotations

import copy

import pytest
import torch

from dppipe.bench.workloads import WORKLOADS
from dppipe.clipping import Flat
from dppipe.engine import Engine

KERNELS = [
    {},
    {"linear": "ghost", "conv": "ghost", "lstm": "ghost"},
    {"linear": "dense", "conv": "grouped", "lstm": "dense"},
    {"conv": "unfolded"},
    {"conv": "pixel"},
]
ROWS = {"a": 256, "b": 64, "c": 4, "d": 16, "e": 4096, "f": 32, "g": 16}
"""As many rows as the slowest kernels allow."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernels", KERNELS, ids=lambda kernels: "-".join(kernels.values()) or "auto"
)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_norms_are_right_at_benchmark_sizes(workload, kernels):
    torch.manual_seed(0)
    model, batch = workload.make(), tuple(part[: ROWS[workload.name]] for part in workload.batch())
    with Engine(model, workload.per_sample_loss, Flat(), kernels=kernels) as engine:
        norms = engine.accumulate(batch, engine.zeros(), bounds=engine.bounds())[:, 0].double()
    wide = copy.deepcopy(model).double()
    parameters = [parameter for parameter in wide.parameters() if parameter.requires_grad]
    for i in range(3):
        row = tuple(
            part[i : i + 1].double() if part.is_floating_point() else part[i : i + 1]
            for part in batch
        )
        found = torch.autograd.grad(workload.per_sample_loss(wide, row).sum(), parameters)
        exact = sum(gradient.square().sum() for gradient in found).sqrt()
        assert -1e-6 < float(norms[i] / exact) - 1 < 3e-4
