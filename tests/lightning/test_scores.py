"""Scores of splits that are too small for them: none, no warning that tells of the records, and no run that ends by it."""

from __future__ import annotations

import json
import math

import pytest
import torch
import torchmetrics
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.lightning.objectives import Objective


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_has_no_area_under_a_curve(label):
    objective = Objective("binary", 1)
    metrics = objective.metrics("val/")
    objective.score(metrics, torch.tensor([0.1, 2.0, -1.0]), torch.tensor([label] * 3))
    assert math.isnan(metrics.compute()["val/auroc"])


def test_one_target_alone_has_no_variance_to_explain():
    objective = Objective("regression", 1)
    metrics = objective.metrics("val/")
    objective.score(metrics, torch.tensor([0.5]), torch.tensor([1.0]))
    found = metrics.compute()
    assert math.isnan(found["val/r2"])
    assert found["val/mse"] == 0.25


def test_other_splits_are_scored_as_the_library_does():
    torch.manual_seed(0)
    logits, labels, numbers = torch.randn(50), torch.randint(2, (50,)), torch.randn(50)
    for task, targets, name, plain in (
        (
            "binary",
            labels,
            "auroc",
            torchmetrics.classification.BinaryAUROC()(torch.sigmoid(logits), labels),
        ),
        ("regression", numbers, "r2", torchmetrics.R2Score()(logits, numbers)),
    ):
        objective = Objective(task, 1)
        metrics = objective.metrics("")
        for part in (slice(0, 20), slice(20, 50)):
            objective.score(metrics, logits[part], targets[part])
        assert float(metrics.compute()[name]) == pytest.approx(float(plain), abs=1e-5)


SPEC = """\
version: 1
name: small
data: {kind: synthetic, size: 14, task: TASK, holdout: public}
model: logistic
optimizer: sgd
sampler: {kind: poisson, sample_rate: 0.5}
noise: {kind: constant, noise_multiplier: 2.0}
accountant: rdp
budget: {epsilon: 50, delta: 1.0e-5}
train: {steps: 2}
"""


@pytest.mark.parametrize(("task", "score"), [("binary", "auroc"), ("regression", "r2")])
def test_a_run_with_one_validation_record_ends_with_what_can_be_scored(
    task, score, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPEC.replace("TASK", task))
    done = CliRunner().invoke(app, ["run", "s.yaml", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["metrics"][f"val/{score}"] is None
