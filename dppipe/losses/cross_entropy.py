"""Cross-entropy, the default for classes; for two classes it is the logistic loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.losses.weighted import ClassLoss

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class CrossEntropy(ClassLoss, kind="cross_entropy"):
    """The negative logarithm of the probability that the model gives the right class."""

    def per_record(self, predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:
        from dppipe.losses.by_task import per_record_loss

        losses = per_record_loss(predictions, targets, task=task)
        return self.weighted(losses, targets)
