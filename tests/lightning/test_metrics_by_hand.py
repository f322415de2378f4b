"""Losses and scores of every task agree with plain formulas, on classes of any sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy
import pytest
import torch
from numpy.typing import NDArray

from dppipe.data.base import Task
from dppipe.lightning.objectives import Objective

Numbers = NDArray[numpy.float64]
SHARES = {
    "even": [1, 1, 1, 1, 1],
    "one rules": [20, 1, 1, 1, 1],
    "one absent": [9, 0, 3, 1, 5],
    "one alone": [0, 0, 1, 0, 0],
}
CUTS = [[60], [1, 36, 23], [1] * 60]
"""Sizes of batches: a batch of one may hold any values, such as a logit that could be a probability."""


def scored(
    task: Task,
    outputs: int,
    predictions: Numbers,
    targets: Any,
    cuts: list[int],
) -> dict[str, float]:
    """Score batches of these sizes, one after the other."""
    objective = Objective(task, outputs)
    metrics = objective.metrics("val/")
    for start, end in pairwise(numpy.cumsum([0, *cuts])):
        given = torch.tensor(predictions[start:end], dtype=torch.float32)
        objective.score(metrics, given, torch.tensor(targets[start:end]))
    return {name: float(value) for name, value in metrics.compute().items()}


def area(logits: Numbers, labels: NDArray[numpy.int64]) -> float:
    """Return how often a record of class 1 is above one of class 0; a tie counts for half."""
    ahead = logits[labels == 1][:, None] - logits[labels == 0][None, :]
    return float(((ahead > 0) + 0.5 * (ahead == 0)).mean())


@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES.keys())
@pytest.mark.parametrize("seed", range(2))
def test_accuracy_is_the_share_of_right_predictions(
    classes: int,
    shares: list[int],
    seed: int,
) -> None:
    generator = numpy.random.default_rng(seed)
    weights = numpy.array(shares[:classes]) / sum(shares[:classes])
    targets = generator.choice(classes, size=60, p=weights)
    predictions = generator.normal(size=(60, classes)) + 0.7 * numpy.eye(classes)[targets]
    predictions[:, 0] += 0.5  # classes aren't hit equally often
    right = float((predictions.argmax(axis=1) == targets).mean())
    for cuts in CUTS:
        found = scored("multiclass", classes, predictions, targets, cuts)
        assert found == {"val/accuracy": pytest.approx(right, abs=1e-6)}


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.95])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", [(60,), (60, 1)], ids=str)
def test_scores_of_two_classes_are_those_of_their_formulas(
    share: float,
    seed: int,
    shape: tuple[int, ...],
) -> None:
    generator = numpy.random.default_rng(seed)
    targets = (generator.random(60) < share).astype(numpy.int64)
    targets[:2] = 0, 1
    logits = numpy.round(
        generator.normal(size=60) + 0.5 * targets - 0.4,
        1,
    )  # rounded, so that there are ties
    right = float(((logits > 0) == targets).mean())
    wanted = {"val/accuracy": pytest.approx(right, abs=1e-6)}
    wanted["val/auroc"] = pytest.approx(area(logits.astype(numpy.float32), targets), abs=1e-5)
    for cuts in CUTS:
        assert scored("binary", 1, logits.reshape(shape), targets, cuts) == wanted


@pytest.mark.parametrize("shift", [0.0, 3.0, -100.0])
@pytest.mark.parametrize("seed", range(2))
def test_scores_of_numbers_are_those_of_their_formulas(shift: float, seed: int) -> None:
    generator = numpy.random.default_rng(seed)
    targets = generator.normal(size=(60, 1)) + shift
    predictions = targets + generator.normal(size=(60, 1))
    errors = float(((predictions - targets) ** 2).mean())
    explained = 1 - errors / float(targets.var())
    for cuts in CUTS:
        found = scored("regression", 1, predictions, targets, cuts)
        assert found["val/mse"] == pytest.approx(errors, rel=1e-3)
        assert found["val/r2"] == pytest.approx(explained, abs=0.01)
        assert found.keys() == {"val/mse", "val/r2"}


def losses(task: Task, outputs: int, predictions: Numbers, targets: Any) -> list[float]:
    batch = torch.tensor(predictions), torch.tensor(targets)
    found = Objective(task, outputs).per_sample_loss(lambda inputs: inputs, batch)
    assert found.shape == (len(predictions),)
    return found.tolist()


def test_each_records_loss_is_that_of_its_formula() -> None:
    generator = numpy.random.default_rng(0)
    predictions, classes = (
        3 * generator.normal(size=(40, 4)),
        generator.choice(4, size=40, p=[0.8, 0.1, 0.1, 0]),
    )
    chosen = predictions[numpy.arange(40), classes]
    wanted = numpy.log(numpy.exp(predictions).sum(axis=1)) - chosen
    assert losses("multiclass", 4, predictions, classes) == pytest.approx(wanted)
    logits, labels = predictions[:, :1], (classes > 0).astype(numpy.int64)
    signed = numpy.where(labels == 1, logits[:, 0], -logits[:, 0])
    assert losses("binary", 1, logits, labels) == pytest.approx(numpy.log1p(numpy.exp(-signed)))
    targets = generator.normal(size=(40, 4))
    assert losses("regression", 4, predictions, targets) == pytest.approx(
        ((predictions - targets) ** 2).mean(axis=1),
    )
    assert losses("regression", 1, logits, targets[:, :1]) == pytest.approx(
        (logits - targets[:, :1])[:, 0] ** 2,
    )


def test_a_records_loss_is_the_same_in_every_batch() -> None:
    generator = numpy.random.default_rng(1)
    predictions, classes = generator.normal(size=(20, 3)), generator.choice(3, size=20)
    together = losses("multiclass", 3, predictions, classes)
    alone = [losses("multiclass", 3, predictions[[row]], classes[[row]])[0] for row in range(20)]
    assert together == pytest.approx(alone)
