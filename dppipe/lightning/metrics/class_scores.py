"""A score of each class, and their mean: NaN where no record of a class could be scored."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torchmetrics import Metric


class ClassScores(Metric):
    """What another metric finds of each class, for classes that have records.

    The other metric's value for a class without records would be a number that means nothing.
    """

    seen: Tensor

    def __init__(self, of_each: Metric, *, classes: int, average: str) -> None:
        super().__init__()
        self.of_each = of_each
        self._average = average
        self.add_state("seen", torch.zeros(classes, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, chances: Tensor, targets: Tensor) -> None:  # [b, classes], [b]
        """Count some records."""
        self.of_each.update(chances, targets)
        self.seen += torch.bincount(targets, minlength=len(self.seen))

    def compute(self) -> Tensor:
        """Return the mean over the classes with records, or the score of each."""
        scores: Tensor = self.of_each.compute()
        # Telling a class from the others needs records of both.
        known = (self.seen > 0) & (self.seen < self.seen.sum()) & scores.isfinite()
        if self._average == "per_class":
            return torch.where(known, scores, torch.nan)
        weights = self.seen if self._average == "weighted" else torch.ones_like(self.seen)
        weights = torch.where(known, weights, 0).to(scores.dtype)
        return (torch.where(known, scores, 0.0) * weights).sum() / weights.sum()

    def reset(self) -> None:
        """Forget all records."""
        super().reset()
        self.of_each.reset()


class Part(Metric):
    """One number of a metric that has several; they share what has been counted.

    The first part counts records, the others read.
    """

    full_state_update = False

    def __init__(self, whole: Metric, place: tuple[int, ...], *, is_first: bool) -> None:
        super().__init__()
        self.whole = whole
        self._place = place
        self._is_first = is_first

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Count some records."""
        if self._is_first:
            self.whole.update(predictions, targets)

    def compute(self) -> Tensor:
        """Return the number, without the library's messages about the records."""
        with warnings.catch_warnings(action="ignore"):
            values: Tensor = self.whole.compute()
        return values[self._place].float()

    def reset(self) -> None:
        """Forget all records."""
        super().reset()
        if self._is_first:
            self.whole.reset()
