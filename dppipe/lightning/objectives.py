"""Tasks: the per-sample loss and the metrics that go with what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

    from dppipe.data.base import Task


@dataclass(frozen=True)
class Objective:
    """What a model is trained and measured by."""

    task: Task
    outputs: int

    def per_sample_loss(self, model: Callable[[Any], Tensor], batch: Any) -> Tensor:  # -> [B]
        """Give each example's own loss: nothing here mixes examples."""
        inputs, targets = batch
        predictions = model(inputs)
        if self.task == "multiclass":
            return F.cross_entropy(predictions, targets, reduction="none")
        if self.task == "binary":
            return F.binary_cross_entropy_with_logits(
                predictions.flatten(), targets.flatten().to(predictions.dtype), reduction="none"
            )
        return (
            F.mse_loss(predictions, targets.view_as(predictions), reduction="none")
            .flatten(1)
            .mean(1)
        )

    def metrics(self, prefix: str) -> MetricCollection:
        """Give fresh metrics, named with this prefix."""
        import torchmetrics
        from torchmetrics import Metric, MetricCollection

        from dppipe.lightning.metrics.scores import R2, Auroc

        found: dict[str, Metric | MetricCollection]
        if self.task == "multiclass":
            found = {
                "accuracy": torchmetrics.classification.MulticlassAccuracy(
                    self.outputs, average="micro"
                )
            }
        elif self.task == "binary":
            found = {
                "accuracy": torchmetrics.classification.BinaryAccuracy(),
                "auroc": Auroc(),
            }
        else:
            found = {"mse": torchmetrics.MeanSquaredError(), "r2": R2()}
        return MetricCollection(found, prefix=prefix)

    def score(self, metrics: MetricCollection, predictions: Tensor, targets: Tensor) -> None:
        """Take one batch of predictions into the metrics."""
        if self.task == "regression":
            metrics.update(predictions.flatten(), targets.flatten().to(predictions.dtype))
        elif self.task == "binary":
            metrics.update(torch.sigmoid(predictions.flatten()), targets.flatten().long())
        else:
            metrics.update(predictions, targets)
