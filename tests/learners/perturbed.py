"""Small data for learners that perturb, and their solutions without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dppipe.learners.job import Job
from dppipe.learners.linear.rows import Rows
from dppipe.learners.perturbation.base import PerturbedLearner
from dppipe.learners.perturbation.loss_constants import LossConstants
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.privacy.release import PublicFacts

FEATURES = 2
TASKS = {"logistic": "binary", "hinge": "binary", "softmax": "multiclass", "huber": "regression"}
CLASSES = 3
LONG = np.longdouble


def facts_of(loss: str, records: int | None = 1000, **others: Any) -> PublicFacts:
    outputs = CLASSES if loss == "softmax" else 1
    given: dict[str, Any] = {
        "records": records,
        "unit": "example",
        "relation": "zero_out",
        "input_shape": (FEATURES,),
        "outputs": outputs,
        "task": TASKS[loss],
        "epsilon": 1.0,
    }
    return PublicFacts(**given | others)


@dataclass(frozen=True)
class Problem:
    """A learner on records, and its solutions."""

    learner: PerturbedLearner
    facts: PublicFacts
    regularization: float
    tolerance: float

    def job(self, dataset: Dataset[Any]) -> Job:
        network = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, self.facts.outputs))
        network = self.learner.prepare(network, self.facts)
        by_users = self.facts.unit == "user"
        records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: True)
        return Job(self.facts, network, records, Path())

    def rows(self, dataset: Dataset[Any]) -> Rows:
        return self.learner.rows(self.job(dataset), None)

    def solution(self, dataset: Dataset[Any], noise: Tensor | None = None) -> Tensor:
        size = self.learner.constants(self.facts).outputs * (FEATURES + 1)
        return self.learner.solve(
            self.job(dataset),
            None,
            regularization=self.regularization,
            tolerance=self.tolerance,
            noise=torch.zeros(size, dtype=torch.float64) if noise is None else noise,
        )


def dataset_of(inputs: Sequence[Sequence[float]], targets: Sequence[float]) -> TensorDataset:
    return TensorDataset(
        torch.tensor(inputs, dtype=torch.float64).reshape(-1, FEATURES),
        torch.tensor(targets, dtype=torch.float64),
    )


def exact_gradient(
    rows: Rows, constants: LossConstants, weights: Tensor, *, regularization: float, noise: Tensor
) -> np.ndarray:
    """Return the gradient from the formulas, in 64-bit mantissas: 2000 times finer than float64."""
    x = rows.inputs.numpy().astype(LONG)
    w = weights.numpy().astype(LONG).reshape(constants.outputs, -1)
    scores = (x[:, None, :] * w[None]).sum(-1)
    y = rows.targets.numpy().astype(LONG).reshape(-1, 1)
    if constants.loss == "softmax":
        shares = np.exp(scores - scores.max(1, keepdims=True))
        slopes = shares / shares.sum(1, keepdims=True) - np.eye(CLASSES)[rows.targets.numpy()]
    elif constants.loss == "huber":
        slopes = np.clip(scores - y, -LONG(constants.width), LONG(constants.width))
    else:
        sign = 2 * y - 1
        width = LONG(constants.width)
        if constants.loss == "hinge":
            slopes = -sign * np.clip((1 + width - sign * scores) / (2 * width), 0, 1)
        else:
            slopes = -sign / (1 + np.exp(np.clip(sign * scores, -9000, 9000)))
    slopes = slopes * rows.weights.numpy().astype(LONG)[:, None]
    total = (slopes[:, :, None] * x[:, None, :]).sum(0).reshape(-1)
    return total + LONG(regularization) * w.reshape(-1) + noise.numpy().astype(LONG)
