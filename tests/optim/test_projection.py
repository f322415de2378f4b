"""Projection of the weights: where it is put on, and by what."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from dppipe.errors import DppipeError
from dppipe.optim.projection import project_
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.spec import spec_from_text

SPEC = """
version: 1
name: ball
data: {kind: digits, holdout: public}
model: {kind: mlp, hidden: [8]}
optimizer: {kind: sgd, lr: 5.0, project: {radius: 1.5}}
sampler: {kind: poisson, expected_batch_size: 64}
budget: {epsilon: 1.0, delta: 1.0e-5}
train: {steps: 4}
"""


def test_it_is_the_euclidean_projection() -> None:
    weights = [nn.Parameter(torch.randn(5).double()), nn.Parameter(torch.randn(2, 2).double())]
    before = torch.cat([each.detach().flatten() for each in weights])
    project_(torch.optim.SGD(weights), radius=0.3)
    after = torch.cat([each.detach().flatten() for each in weights])
    torch.testing.assert_close(after, before * 0.3 / before.norm(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_have_diverged_are_left_for_others_to_report(bad: float) -> None:
    weights = nn.Parameter(torch.tensor([bad, 1.0]))
    project_(torch.optim.SGD([weights]), radius=0.5)
    assert weights[1] == 1.0


def test_large_weights_whose_squares_overflow_are_projected() -> None:
    weights = nn.Parameter(torch.tensor([3e30, 4e30]))
    project_(torch.optim.SGD([weights]), radius=1.0)
    torch.testing.assert_close(weights.detach(), torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("averaging", ["", ", averaging: ema"])
def test_a_private_run_ends_in_the_ball(tmp_path: Path, averaging: str) -> None:
    spec = spec_from_text(SPEC.replace("}}\nsampler", "}" + averaging + "}\nsampler"))
    run_spec(spec, make_plan(spec), run_dir=tmp_path / "run")
    weights = torch.load(tmp_path / "run" / "checkpoints" / "final.ckpt", weights_only=True)
    norm = torch.cat([each.flatten() for each in weights.values()]).norm()
    assert 0 < norm <= 1.5 * (1 + 1e-6)
    # The noise alone would carry it farther: 4 steps of rate 5 over 610 coordinates.
    if not averaging:
        assert norm == pytest.approx(1.5, rel=1e-5)


def test_a_radius_of_nothing_is_refused() -> None:
    with pytest.raises(DppipeError, match=r"optimizer.project.radius: expected a number > 0"):
        spec_from_text(SPEC.replace("1.5", "0"))
