"""Huber's loss (1964): squares near the target, straight lines further away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dppipe.component import Field
from dppipe.losses.base import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class Huber(Loss, kind="huber"):
    """Half the square of an error up to delta, and delta times the rest: outliers count less."""

    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    delta: float = Field(
        1.0, gt=0, description="The error, in units of the scaled target, from which it is linear."
    )

    def per_record(self, predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:
        from torch.nn import functional as F

        losses = F.huber_loss(
            predictions, targets.view_as(predictions), reduction="none", delta=self.delta
        )
        return losses.flatten(1).mean(1)
