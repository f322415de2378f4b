"""Scores that are NaN on a split too small for them, without a message about its records.

The library's own print which class is absent and return zero, or raise an error.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torchmetrics import R2Score
from torchmetrics.classification import BinaryAUROC
from torchmetrics.utilities.data import dim_zero_cat


class Auroc(BinaryAUROC):
    """The area under the ROC curve; NaN unless both classes are there."""

    def compute(self) -> Tensor:  # type: ignore[override]  # as the library has it
        """Return the score."""
        with warnings.catch_warnings(action="ignore"):
            score: Tensor = super().compute()
            targets: Tensor = dim_zero_cat(self.target)
        if targets.any() and not targets.all():
            return score
        return torch.full_like(score, torch.nan)


class R2(R2Score):
    """The share of the targets' variance that is explained; NaN for fewer than two targets."""

    def compute(self) -> Tensor:
        """Return the score."""
        if int(self.total) < 2:
            return torch.full((), torch.nan, device=self.device)
        with warnings.catch_warnings(action="ignore"):
            return super().compute()
