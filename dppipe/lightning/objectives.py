"""Tasks: the per-sample loss and the metrics of what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.data.reading.tasks import NO_TAG
from dppipe.losses.by_task import per_record_loss

if TYPE_CHECKING:
    from torchmetrics import MetricCollection

    from dppipe.data.base import Task
    from dppipe.losses.base import Loss
    from dppipe.spec.metrics import NamedMetric
    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Objective:
    """What a model is trained and measured by."""

    task: Task
    outputs: int
    loss: Loss | None = None
    """What training lowers; None for the task's own loss."""
    named: tuple[NamedMetric, ...] | None = None
    """The metrics by name; None for the task's own."""
    labels: tuple[str, ...] = ()
    """What each class is called."""

    def per_sample_loss(self, model: Callable[[Any], Tensor], batch: Any) -> Tensor:  # -> [B]
        """Return each example's own loss: nothing here mixes examples."""
        inputs, targets = batch
        if self.loss is not None:
            return self.loss.per_record(model(inputs), targets, task=self.task)
        return per_record_loss(model(inputs), targets, task=self.task)

    def metrics(self, prefix: str) -> MetricCollection:
        """Return new metrics, named with this prefix."""
        from dppipe.lightning.metrics.named import make_metrics

        if self.named is None:
            return self._own_metrics(prefix)
        return make_metrics(
            self.named, task=self.task, outputs=self.outputs, labels=self.labels, prefix=prefix
        )

    def _own_metrics(self, prefix: str) -> MetricCollection:
        """Return the task's own metrics."""
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
        elif self.named is not None:
            from dppipe.lightning.metrics.named import chances

            metrics.update(chances(predictions, task=self.task), targets.flatten().long())
        elif self.task == "binary":
            metrics.update(torch.sigmoid(predictions.flatten()), targets.flatten().long())
        elif self.task == "tagging":  # every token counts once
            metrics.update(predictions.flatten(0, 1), targets.flatten())
        else:
            metrics.update(predictions, targets)


def objective_of(spec: Spec) -> Objective:
    """Return what the model of a spec is trained and measured by."""
    return Objective(
        spec.data.task,
        spec.data.outputs,
        loss=spec.train.loss,
        named=spec.train.metrics,
        labels=spec.data.class_labels,
    )
