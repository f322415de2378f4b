"""Estimated norms: the directions that they come from are secret, and new for each batch."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import binomtest
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


@pytest.mark.parametrize("tolerance", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("projections", [2, 5, 12])
def test_bounds_fail_as_often_as_delta_pays_for(projections, tolerance):
    """2000 rows with orthogonal gradients, whose estimates are independent. How many are above the bound after clipping is
    binomial; false alarms: below 1e-8 in all nine cases.
    """
    rows = 2000
    clipper = Jl(projections=projections, tolerance=tolerance)
    model = nn.Linear(rows, 1, bias=False)
    nn.init.zeros_(model.weight)
    with Engine(model, lambda model, batch: model(batch)[:, 0], clipper) as engine:
        sums = engine.zeros()
        engine.accumulate(3.0 * torch.eye(rows), sums, bounds=engine.bounds())
    failed = int((sums["weight"][0].abs() > 1).sum())
    assert binomtest(failed, rows, clipper.failure_probability()).pvalue > 1e-9
