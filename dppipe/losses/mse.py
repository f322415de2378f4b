"""Squared errors, the default for a regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.losses.base import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class Mse(Loss, kind="mse"):
    """The mean square of the errors of a record's outputs."""

    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    def per_record(self, predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:
        from dppipe.losses.by_task import per_record_loss

        return per_record_loss(predictions, targets, task=task)
