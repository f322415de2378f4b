"""Scores that a small split can't be given: they are NaN there, and nothing is said of the split's records.

The library's own say on the console which class is absent and give a zero, or raise an error.
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
        """Give the score."""
        with warnings.catch_warnings(action="ignore"):
            score: Tensor = super().compute()
            targets: Tensor = dim_zero_cat(self.target)
        return score if targets.any() and not targets.all() else torch.full_like(score, torch.nan)


class R2(R2Score):
    """The share of the targets' variance that is explained; NaN for fewer than two targets."""

    def compute(self) -> Tensor:
        """Give the score."""
        if int(self.total) < 2:
            return torch.full((), torch.nan, device=self.device)
        with warnings.catch_warnings(action="ignore"):
            return super().compute()
