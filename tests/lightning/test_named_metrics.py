"""Metrics by name equal their formulas, show each class, and leave out what can't be scored."""

from __future__ import annotations

import json
import math

import numpy
import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.errors import SpecError
from dppipe.lightning.objectives import Objective
from dppipe.spec import spec_from_text
from dppipe.spec.metrics import Metric


def compute(task, outputs, named, predictions, targets, labels=()):
    objective = Objective(task, outputs, named=tuple(named), labels=labels)
    metrics = objective.metrics("")
    for start in range(0, len(predictions), 7):
        part = slice(start, start + 7)
        objective.score(metrics, predictions[part], targets[part])
    return {name: float(value) for name, value in metrics.compute().items()}


def rank_auroc(scores, positive):
    pairs = [(a, b) for a in scores[positive] for b in scores[~positive]]
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


def mean_precision(scores, positive):
    order = numpy.argsort(-scores)
    hits = positive[order]
    precisions = numpy.cumsum(hits) / numpy.arange(1, len(hits) + 1)
    return precisions[hits].mean()


def made(classes, rows=60):
    generator = torch.Generator().manual_seed(3)
    predictions = torch.randn(rows, 1 if classes == 2 else classes, generator=generator)
    targets = torch.randint(classes, (rows,), generator=generator)
    return predictions, targets


def test_scores_of_two_classes_are_those_of_the_second():
    predictions, targets = made(2)
    names = (
        "accuracy",
        "auroc",
        "average_precision",
        "balanced_accuracy",
        "f1",
        "precision",
        "recall",
    )
    found = compute("binary", 1, [Metric(kind=name) for name in names], predictions, targets)
    scores = predictions[:, 0].double().numpy()
    positive = targets.bool().numpy()
    chosen = scores > 0
    hits = (chosen & positive).sum()
    recall = hits / positive.sum()
    precision = hits / chosen.sum()
    specificity = (~chosen & ~positive).sum() / (~positive).sum()
    expected = {
        "accuracy": (chosen == positive).mean(),
        "auroc": rank_auroc(scores, positive),
        "average_precision": mean_precision(scores, positive),
        "balanced_accuracy": (recall + specificity) / 2,
        "f1": 2 * precision * recall / (precision + recall),
        "precision": precision,
        "recall": recall,
    }
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["auroc", "average_precision", "f1", "precision", "recall"])
def test_macro_is_the_mean_of_the_classes(name):
    predictions, targets = made(4)
    named = [Metric(kind=name), Metric(kind=name, average="per_class")]
    found = compute("multiclass", 4, named, predictions, targets, labels=("a", "b", "c", "d"))
    macro = found.pop(name)
    assert set(found) == {f"{name}/{label}" for label in "abcd"}
    assert macro == pytest.approx(numpy.mean(list(found.values())), abs=1e-6)
    if name == "auroc":
        scores = torch.softmax(predictions.double(), 1).numpy()
        for number, label in enumerate("abcd"):
            expected = rank_auroc(scores[:, number], (targets == number).numpy())
            assert found[f"auroc/{label}"] == pytest.approx(expected, abs=1e-5)


def test_a_confusion_matrix_counts_true_classes_in_rows():
    predictions, targets = made(3)
    found = compute("multiclass", 3, [Metric(kind="confusion_matrix")], predictions, targets)
    chosen = predictions.argmax(1)
    for true in range(3):
        for predicted in range(3):
            count = int(((targets == true) & (chosen == predicted)).sum())
            assert found[f"confusion_matrix/{true}/{predicted}"] == count


def test_numbers_have_their_own_scores():
    predictions, targets = (
        torch.tensor([[1.0], [3.0], [-1.0]]),
        torch.tensor([[2.0], [1.0], [-1.0]]),
    )
    names = ("mae", "mse", "rmse", "r2")
    found = compute("regression", 1, [Metric(kind=name) for name in names], predictions, targets)
    expected = {"mae": 1.0, "mse": 5 / 3, "rmse": math.sqrt(5 / 3), "r2": 1 - 5 / (14 / 3)}
    assert found == pytest.approx(expected, abs=1e-5)


def test_calibration_is_the_mean_gap_between_chance_and_hits():
    predictions, targets = made(3)
    found = compute(
        "multiclass", 3, [Metric(kind="calibration_error", bins=5)], predictions, targets
    )
    chances = torch.softmax(predictions.double(), 1)
    top, chosen = chances.max(1)
    hits = (chosen == targets).double()
    gap = 0.0
    for lower in numpy.linspace(0, 0.8, 5):
        inside = (top > lower) & (top <= lower + 0.2)
        if inside.any():
            gap += float(inside.double().mean() * (hits[inside].mean() - top[inside].mean()).abs())
    assert found["calibration_error"] == pytest.approx(gap, abs=1e-5)


def test_a_class_without_records_has_no_score_and_no_part_in_the_mean():
    predictions, targets = made(3)
    targets = targets % 2
    named = [
        Metric(kind="auroc"),
        Metric(kind="auroc", average="per_class"),
        Metric(kind="balanced_accuracy"),
    ]
    found = compute("multiclass", 3, named, predictions, targets)
    assert math.isnan(found["auroc/2"])
    assert found["auroc"] == pytest.approx((found["auroc/0"] + found["auroc/1"]) / 2)
    assert math.isfinite(found["balanced_accuracy"])


def test_a_second_epoch_counts_its_own_records_only():
    objective = Objective(
        "multiclass", 3, named=(Metric(kind="confusion_matrix"), Metric(kind="auroc"))
    )
    metrics = objective.metrics("")
    predictions, targets = made(3)
    found = []
    for _ in range(2):
        objective.score(metrics, predictions, targets)
        found.append({name: float(value) for name, value in metrics.compute().items()})
        for metric in metrics.values():
            metric.reset()
    assert found[0] == found[1]


SPEC = """\
version: 1
name: measured
data: {kind: breast_cancer, holdout: HOLDOUT, split: {train: 0.6, val: 0.2, test: 0.2}}
model: logistic
optimizer: sgd
sampler: {kind: poisson, sample_rate: 0.1}
noise: {kind: constant, noise_multiplier: 2.0}
accountant: rdp
budget: {epsilon: 50, delta: 1.0e-5}
train: {steps: 4, validate_every: 2, metrics: METRICS}
"""
NAMED = "[f1, {kind: recall, average: per_class}, confusion_matrix]"


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_named_metrics_reach_the_summary_the_curves_and_evaluate(holdout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SPEC.replace("HOLDOUT", holdout).replace("METRICS", NAMED)
    (tmp_path / "s.yaml").write_text(text)
    done = CliRunner().invoke(app, ["run", "s.yaml", "--run-dir", "r", "--json"])
    assert done.exit_code == 0, done.output
    prefix = "" if holdout == "public" else "nonprivate/"
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    names = {"f1", "recall/0", "recall/1", "confusion_matrix"}
    assert set(summary["metrics"]) == {f"{prefix}val/{name}" for name in names}
    matrix = summary["metrics"][f"{prefix}val/confusion_matrix"]
    assert numpy.shape(matrix) == (2, 2)
    assert numpy.sum(matrix) == 113
    assert matrix[1][1] / sum(matrix[1]) == pytest.approx(
        summary["metrics"][f"{prefix}val/recall/1"]
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = EventAccumulator(str(tmp_path / "r"))
    curves.Reload()
    assert {f"{prefix}val/f1", f"{prefix}val/confusion_matrix/0/1"} <= set(curves.Tags()["scalars"])
    for _ in range(2):  # the second time from the summary
        scored = CliRunner().invoke(app, ["evaluate", "r", "--json"])
        test = json.loads(scored.stdout)
        assert set(test) == {f"{prefix}test/{name}" for name in names}
        assert numpy.sum(test[f"{prefix}test/confusion_matrix"]) == 113
    assert (
        f"{prefix}val/recall/1"
        in CliRunner().invoke(app, ["compare", "r", "--nonprivate", "--json"]).output
    )


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("[mse]", r"train\.metrics\.0: expected a metric of a binary task, got mse"),
        ("[f2]", r"train\.metrics\.0\.kind: expected accuracy, .*got 'f2'"),
        ("[{kind: auroc, average: micro}]", r"expected macro, weighted or per_class for auroc"),
        ("[{kind: accuracy, average: macro}]", r"expected average beside auroc"),
        ("[{kind: f1, bins: 3}]", r"expected bins beside calibration_error only"),
        ("[f1, f1]", r"expected each metric once, got f1 twice"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_at_its_place(metrics, message):
    text = SPEC.replace("HOLDOUT", "public").replace("METRICS", metrics)
    with pytest.raises(SpecError, match=message):
        spec_from_text(text)
