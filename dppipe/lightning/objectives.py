"""Tasks: the per-sample loss and the metrics of what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.data.reading.tasks import NO_TAG
from dppipe.learners.records.task_losses import per_record_loss

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

    from dppipe.data.base import Task


@dataclass(frozen=True)
class Objective:
    """What a model is trained and measured by."""

    task: Task
    outputs: int

    def per_sample_loss(self, model: Callable[[Any], Tensor], batch: Any) -> Tensor:  # -> [B]
        """Return each example's own loss: nothing here mixes examples."""
        inputs, targets = batch
        return per_record_loss(model(inputs), targets, task=self.task)

    def metrics(self, prefix: str) -> MetricCollection:
        """Return new metrics, named with this prefix."""
        from torchmetrics import MeanSquaredError, Metric, MetricCollection, classification

        from dppipe.lightning.metrics.scores import R2, Auroc

        found: dict[str, Metric | MetricCollection]
        if self.task == "multiclass":
            accuracy = classification.MulticlassAccuracy(self.outputs, average="micro")
            found = {"accuracy": accuracy}
        elif self.task == "tagging":
            accuracy = classification.MulticlassAccuracy(
                self.outputs, average="micro", ignore_index=NO_TAG
            )
            found = {"accuracy": accuracy}
        elif self.task == "binary":
            found = {"accuracy": classification.BinaryAccuracy(), "auroc": Auroc()}
        else:
            found = {"mse": MeanSquaredError(), "r2": R2()}
        return MetricCollection(found, prefix=prefix)

    def score(self, metrics: MetricCollection, predictions: Tensor, targets: Tensor) -> None:
        """Add one batch of predictions to the metrics."""
        if self.task == "regression":
            metrics.update(predictions.flatten(), targets.flatten().to(predictions.dtype))
        elif self.task == "binary":
            metrics.update(torch.sigmoid(predictions.flatten()), targets.flatten().long())
        elif self.task == "tagging":  # every token counts once
            metrics.update(predictions.flatten(0, 1), targets.flatten())
        else:
            metrics.update(predictions, targets)
