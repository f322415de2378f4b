"""The metrics that `train.metrics` names, computed by torchmetrics.

Each is one number to whoever logs it. A metric with several numbers (one for each class, or each
cell of a confusion matrix) becomes as many, which share what has been counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection, classification
from torchmetrics import Metric as TorchMetric

from dppipe.lightning.metrics.class_scores import ClassScores, Part
from dppipe.lightning.metrics.scores import R2

if TYPE_CHECKING:
    from dppipe.data.reading.tasks import Task
    from dppipe.spec.metrics import Metric

_PLAIN = re.compile(r"[\w.<>=+-]+")
"""A class's name that can stand in the name of a curve."""
_OF_EACH_CLASS: dict[str, Callable[..., TorchMetric]] = {
    "auroc": classification.MulticlassAUROC,
    "average_precision": classification.MulticlassAveragePrecision,
    "balanced_accuracy": classification.MulticlassRecall,
    "f1": classification.MulticlassF1Score,
    "precision": classification.MulticlassPrecision,
    "recall": classification.MulticlassRecall,
}


def make_metrics(
    named: Sequence[Metric], *, task: Task, outputs: int, labels: Sequence[str], prefix: str
) -> MetricCollection:
    """Return what computes these metrics.

    It is updated with chances `[b, classes]` and class numbers `[b]`, or with numbers `[b]` and
    `[b]` of a regression.
    """
    classes = 2 if task == "binary" else outputs
    names = class_names(labels, classes)
    found: dict[str, TorchMetric | MetricCollection] = {}
    for metric in named:
        if task == "regression":
            found[metric.label] = _of_numbers(metric)
            continue
        whole = _of_classes(metric, task, classes)
        for number, (name, place) in enumerate(_places(metric, task, names)):
            found[name] = Part(whole, place, is_first=number == 0)
    return MetricCollection(found, prefix=prefix, compute_groups=False)


def chances(predictions: Tensor, *, task: Task) -> Tensor:  # -> [b, classes]
    """Return the probability of each class."""
    if task == "binary":
        positive = torch.sigmoid(predictions.flatten().float())
        return torch.stack([1 - positive, positive], dim=1)
    return torch.softmax(predictions.float(), dim=1)


def class_names(labels: Sequence[str], classes: int) -> list[str]:
    """Return the classes' names as parts of a metric's name; their numbers where a name can't."""
    plain = all(_PLAIN.fullmatch(label) for label in labels)
    if len(labels) == classes and plain and len(set(labels)) == classes:
        return list(labels)
    return [str(number) for number in range(classes)]


def _of_numbers(metric: Metric) -> TorchMetric:
    if metric.kind == "r2":
        return R2()
    if metric.kind == "mae":
        return MeanAbsoluteError()
    return MeanSquaredError(squared=metric.kind == "mse")


def _of_classes(metric: Metric, task: Task, classes: int) -> TorchMetric:
    """Return what computes all numbers of a metric at once."""
    if metric.kind == "accuracy":
        return classification.MulticlassAccuracy(classes, average="micro")
    if metric.kind == "confusion_matrix":
        return classification.MulticlassConfusionMatrix(classes)
    if metric.kind == "calibration_error":
        return classification.MulticlassCalibrationError(classes, n_bins=metric.bins)
    of_each = _OF_EACH_CLASS[metric.kind]
    if metric.average in ("macro", "micro", "weighted") and metric.kind in (
        "f1",
        "precision",
        "recall",
    ):
        return of_each(classes, average=metric.average)
    average = metric.average or "macro"
    if metric.average is None and task == "binary" and metric.kind != "balanced_accuracy":
        average = "per_class"
    return ClassScores(of_each(classes, average="none"), classes=classes, average=average)


def _places(
    metric: Metric, task: Task, names: Sequence[str]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name of each number of a metric, with its place in what is computed at once."""
    if metric.kind == "confusion_matrix":
        for true in range(len(names)):
            for predicted in range(len(names)):
                yield f"{metric.kind}/{true}/{predicted}", (true, predicted)
    elif metric.average == "per_class":
        for number, name in enumerate(names):
            yield f"{metric.kind}/{name}", (number,)
    elif metric.average is None and task == "binary" and metric.of_each_class:
        yield metric.label, (1,)
    else:
        yield metric.label, ()
