"""Focal loss (Lin et al. 2017): records that the model gets right count less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.component import Field
from dppipe.losses.weighted import ClassLoss

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


class Focal(ClassLoss, kind="focal"):
    """Cross-entropy times (1 - p)^gamma, where p is the probability of the right class."""

    gamma: float = Field(
        2.0, ge=0, description="How much less easy records count; 0 is cross-entropy."
    )

    def per_record(self, predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:
        import torch

        from dppipe.losses.by_task import per_record_loss

        losses = per_record_loss(predictions, targets, task=task)
        if self.gamma:
            # 1 - p, which is exact for a p near 1; at 0 a power below 1 has no gradient.
            missed = (-torch.expm1(-losses)).clamp(min=torch.finfo(losses.dtype).eps)
            losses = losses * missed**self.gamma
        return self.weighted(losses, targets)
