"""The loss of each record by the task: what models are trained on, and candidates are scored by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.data.reading.tasks import NO_TAG

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.data.reading.tasks import Task


def per_record_loss(predictions: Tensor, targets: Tensor, *, task: Task) -> Tensor:  # -> [b]
    """Return each record's own loss: nothing here mixes records.

    Args:
        predictions: What a network returns for a batch of inputs.
        targets: `[b]` class numbers, or what has the size of the predictions.
        task: Cross-entropy for classes, the logistic loss for two, squares for a regression; the
            mean of the cross-entropies of a record's own tokens for tagging.
    """
    if task == "tagging":
        return _mean_over_tokens(predictions, targets)
    from torch.nn import functional as F

    if task == "multiclass":
        return F.cross_entropy(predictions, targets, reduction="none")
    if task == "binary":
        return F.binary_cross_entropy_with_logits(
            predictions.flatten(), targets.flatten().to(predictions.dtype), reduction="none"
        )
    squares = F.mse_loss(predictions, targets.view_as(predictions), reduction="none")
    return squares.flatten(1).mean(1)


# [b, t, classes], [b, t] -> [b]
def _mean_over_tokens(predictions: Tensor, tags: Tensor) -> Tensor:
    """Return the mean over each record's own tokens; 0 of a record without any."""
    from torch.nn import functional as F

    losses = F.cross_entropy(
        predictions.transpose(1, 2), tags, reduction="none", ignore_index=NO_TAG
    )
    return losses.sum(1) / (tags != NO_TAG).sum(1).clamp(min=1)
