"""Specs and records for the learners of one release that aren't solvers: mean and exponential."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from dppipe.data.reading.users import with_users
from dppipe.learners.base import Learner
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.privacy.release import PublicFacts

RECORDS = 300
WIDTH = 5
SPEC = """
version: 1
name: small
data: {kind: npz, path: FOLDER/records.npz, classes: 2, records: 300, holdout: public, split: {train: 1.0, val: 0.0, test: 0.0}}
LEARNER
budget: {epsilon: 1.0, delta: 1.0e-5}
"""
MEAN = "learner: {kind: mean, max_norm: 2.0}"
CANDIDATES = ("good", "bad", "none")
EXPONENTIAL = """
model: logistic
learner:
  kind: exponential
  candidates: [FOLDER/good.pt, FOLDER/bad.pt, FOLDER/none.pt]
  loss_bound: 1.5
"""


def write_spec(folder: Path, kind: str) -> Path:
    """Write records, candidates and a spec; the label is whether the first number is positive."""
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(RECORDS, WIDTH)).astype(np.float32)
    np.savez(folder / "records.npz", x=inputs, y=(inputs[:, 0] > 0).astype(np.int64))
    for name, weight in zip(CANDIDATES, (4.0, -4.0, 0.0), strict=True):
        weights = torch.zeros(1, WIDTH)
        weights[0, 0] = weight
        state = {"1.weight": weights, "1.bias": torch.zeros(1)}
        torch.save(state, folder / f"{name}.pt")
    text = SPEC.replace("LEARNER", MEAN if kind == "mean" else EXPONENTIAL)
    (folder / "spec.yaml").write_text(text.replace("FOLDER", str(folder)))
    return folder / "spec.yaml"


def facts_of(shape: tuple[int, ...] = (2,), **others: Any) -> PublicFacts:
    given: dict[str, Any] = {
        "records": 100,
        "unit": "example",
        "relation": "zero_out",
        "input_shape": shape,
        "outputs": 1,
        "task": "binary",
        "epsilon": 1.0,
    }
    return PublicFacts(**given | others)


def dataset_of(records: list[tuple[list[float], float]]) -> TensorDataset:
    inputs = torch.tensor([one for one, _ in records], dtype=torch.float64).reshape(-1, 2)
    return TensorDataset(inputs, torch.tensor([target for _, target in records]))


def owned(dataset: TensorDataset, users: list[int]) -> Dataset[Any]:
    return with_users(dataset, np.array(users, dtype=np.int64))


def readable(dataset: Dataset[Any], *, by_users: bool = False) -> TrainingRecords:
    return TrainingRecords(dataset, by_users=by_users, may_read=lambda: True)


class Shown:
    """A gate that releases what it is handed as it is, and keeps it."""

    def __init__(self, learner: Learner, facts: PublicFacts) -> None:
        (self.release,) = learner.releases(facts, scale=1.0)

    def next(self) -> Any:
        return self.release

    def add_noise(self, release: Any, compute: Any) -> torch.Tensor:
        self.bounded: Bounded = compute()
        return self.bounded.value / self.bounded.over

    def select(self, release: Any, scores: Any) -> int:
        self.bounded = scores()
        return int(torch.argmax(self.bounded.value))


def fitted(
    learner: Learner, facts: PublicFacts, dataset: Dataset[Any], module: nn.Module
) -> tuple[nn.Module, Bounded]:
    """Return what a learner makes of records without noise, and what would have been noised."""
    gate = Shown(learner, facts)
    records = readable(dataset, by_users=facts.unit == "user")
    trained = learner.fit(Job(facts, module, records, Path()), gate)
    return trained, gate.bounded
