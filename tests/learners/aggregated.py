"""Small data for subsample and aggregate, and estimators that do their worst."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from listed_records import Listed
from torch import Tensor, nn
from torch.utils.data import Dataset

from dppipe.data.reading.users import with_users
from dppipe.learners.blocks.reading import Block
from dppipe.learners.job import Job
from dppipe.learners.records.training_records import TrainingRecords
from dppipe.learners.subsample_aggregate import SubsampleAggregate
from dppipe.privacy.release import PublicFacts

FEATURES = 2
RIDGE = {"kind": "ridge", "regularization": 0.5}
LOGISTIC = {"kind": "logistic_ridge", "regularization": 0.5}
SGD = {"kind": "sgd", "epochs": 2, "lr": 0.1, "batch_size": 2}


def learner_of(**options: Any) -> SubsampleAggregate:
    given = {"blocks": 4, "radius": 2.0, "inner": RIDGE}
    return SubsampleAggregate.from_data(given | options)


def facts_of(relation: str = "zero_out", **others: Any) -> PublicFacts:
    given: dict[str, Any] = {
        "records": None if relation == "add_remove" else 12,
        "unit": "example",
        "relation": relation,
        "input_shape": (FEATURES,),
        "outputs": 3,
        "task": "multiclass",
        "epsilon": 1.0,
        "seed": 3,
    }
    return PublicFacts(**given | others)


def listed(records: list[Any], users: list[int] | None = None) -> Listed:
    """Return records from a list, with their users."""
    found = Listed(records)
    return found if users is None else with_users(found, np.array(users, dtype=np.int64))


def record(first: float, second: float, label: float = 0) -> tuple[Tensor, Tensor]:
    return torch.tensor([first, second], dtype=torch.float64), torch.tensor(label)


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 3))


def job_of(
    learner: SubsampleAggregate,
    dataset: Dataset[Any],
    facts: PublicFacts,
    made: nn.Module | None = None,
) -> Job:
    module = learner.prepare(made or network(), facts)
    by_users = facts.unit == "user"
    records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: True)
    return Job(facts, module, records, Path())


def mean_of(learner: SubsampleAggregate, dataset: Dataset[Any], facts: PublicFacts) -> Tensor:
    """Return the mean of all estimates, before noise."""
    job = job_of(learner, dataset, facts)
    return learner.bounded_mean(job, learner.estimator(job)).value


@dataclass(frozen=True)
class Worst:
    """An estimator that goes to one end of the ball if a block holds a mark, and else to the other.

    Its mark is an input above 900.
    """

    size: int = 3
    say: Callable[[Block], Tensor] | None = None

    def estimate(self, block: Block) -> Tensor:
        if self.say is not None:
            return self.say(block)
        marked = bool((block.inputs > 900).any())
        return torch.full((self.size,), 1e200 if marked else -1e200, dtype=torch.float64)

    def set_weights(self, moved: Tensor) -> None:
        raise NotImplementedError
