"""Linear regressions on small data, and what they would release without noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from learners.perturbed import FEATURES, facts_of
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dppipe.learners.job import Job
from dppipe.learners.linear_regression import LinearRegression
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.learners.regression.moments import Moments, stack
from dppipe.privacy.release import PublicFacts

FACTS: dict[str, PublicFacts] = {
    "binary": facts_of("logistic"),
    "classes": facts_of("softmax"),
    "regression": facts_of("huber"),
    "two outputs": facts_of("huber", outputs=2),
}
GONE = [math.nan, 0.0]
"""The features of a record that contributes nothing."""


def learner_of(name: str, **options: Any) -> LinearRegression:
    """Return a learner for one of `FACTS`."""
    bound = options.pop("target_bound", 2.0)
    if FACTS[name].task == "regression":
        options["target_bound"] = bound
    return LinearRegression.from_data(options)


def job_of(
    learner: LinearRegression, facts: PublicFacts, dataset: Dataset[Any], *, bias: bool = True
) -> Job:
    layer = nn.Linear(FEATURES, facts.outputs, bias=bias)
    network = learner.prepare(nn.Sequential(nn.Flatten(), layer), facts)
    by_users = facts.unit == "user"
    records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: True)
    return Job(facts, network, records, Path())


def dataset_for(facts: PublicFacts, records: list[Any]) -> TensorDataset:
    """Return records `(features, targets)`, of which there may be none."""
    width = facts.outputs if facts.task == "regression" else 1
    inputs = torch.tensor([x for x, _ in records], dtype=torch.float64).reshape(-1, FEATURES)
    targets = torch.tensor([y[:width] for _, y in records], dtype=torch.float64)
    return TensorDataset(inputs, targets.reshape(-1, width))


def moments_of(
    learner: LinearRegression, facts: PublicFacts, dataset: Dataset[Any], *, bias: bool = True
) -> Moments:
    return learner.moments(job_of(learner, facts, dataset, bias=bias), None)


def released(learner: LinearRegression, facts: PublicFacts, dataset: Dataset[Any]) -> Tensor:
    """Return what a run would add noise to."""
    return stack(moments_of(learner, facts, dataset))


def apart(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other))
