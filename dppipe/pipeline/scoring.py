"""Scoring a model on records that aren't trained on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from dppipe.data.reading.record_checks import usable_part
from dppipe.errors import UsageError
from dppipe.lightning.objectives import objective_of

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

    from dppipe.data.base import Data
    from dppipe.spec.spec import Spec

SCORING_BATCH_SIZE = 1024


def scoring_loader(dataset: Dataset[Any] | None, *, data: Data) -> DataLoader[Any] | None:
    """Return an ordinary loader that scores the usable records of a split in order."""
    if dataset is None:
        return None
    return DataLoader(usable_part(dataset, data), batch_size=SCORING_BATCH_SIZE)


def score_split(
    model: nn.Module, split: Dataset[Any], spec: Spec, *, prefix: str
) -> dict[str, float]:
    """Return the metrics of a model on the usable records of a split."""
    loader = scoring_loader(split, data=spec.data)
    if loader is None:
        raise UsageError("data.split: expected records to score, got none.")
    return score_records(model.eval(), loader, spec, prefix=prefix)


def score_records(
    model: nn.Module, records: DataLoader[Any], spec: Spec, *, prefix: str
) -> dict[str, float]:
    """Return the metrics of a model, each name with this prefix."""
    objective = objective_of(spec)
    metrics = objective.metrics(prefix)
    if not len(records):
        # No record fell into the split: there is nothing to measure.
        return dict.fromkeys(map(str, metrics.keys()), math.nan)
    with torch.inference_mode():
        for inputs, targets in records:
            objective.score(metrics, model(inputs), targets)
    scores: dict[str, Any] = metrics.compute()
    return {name: float(value) for name, value in scores.items()}
