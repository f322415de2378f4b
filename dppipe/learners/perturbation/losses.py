"""Losses of linear models, as functions of scores: values, first and second derivatives.

Scores are `[n, outputs]`; targets are class numbers, or numbers of a regression. Every function
works on one record alone. The constants stand in `loss_constants.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dppipe.learners.perturbation.loss_constants import LossConstants


class Loss(Protocol):
    """The loss of scores `[n, outputs]`."""

    def value(self, scores: Tensor) -> Tensor:  # -> [n]
        """Return each record's loss."""
        ...

    def slope(self, scores: Tensor) -> Tensor:  # -> [n, outputs]
        """Return the derivative by each score."""
        ...

    def bend(self, scores: Tensor, along: Tensor) -> Tensor:  # -> [n, outputs]
        """Return the second derivative times a direction `[n, outputs]`."""
        ...


def make_loss(constants: LossConstants, targets: Tensor) -> Loss:
    """Return the loss of the records with these targets."""
    if constants.loss == "softmax":
        return _Softmax(targets)
    if constants.loss == "huber":
        return _Huber(targets.reshape(-1, 1), constants.width)
    signs = (2 * targets.reshape(-1, 1) - 1).to(torch.float64)
    if constants.loss == "logistic":
        return _Logistic(signs)
    return _Hinge(signs, constants.width)


class _Logistic:
    """ln(1 + e^-m) of the margin m = y score."""

    def __init__(self, signs: Tensor) -> None:
        self._signs = signs

    def value(self, scores: Tensor) -> Tensor:
        return torch.nn.functional.softplus(-self._signs * scores, threshold=1e9)[:, 0]

    def slope(self, scores: Tensor) -> Tensor:
        return -self._signs * torch.sigmoid(-self._signs * scores)

    def bend(self, scores: Tensor, along: Tensor) -> Tensor:
        return torch.sigmoid(scores) * torch.sigmoid(-scores) * along


class _Hinge:
    """max(0, 1 - m) of the margin m, with a parabola of half-width h in place of its corner."""

    def __init__(self, signs: Tensor, width: float) -> None:
        self._signs = signs
        self._width = width

    def value(self, scores: Tensor) -> Tensor:
        margin = self._signs * scores
        corner = (1 + self._width - margin) ** 2 / (4 * self._width)
        outside = torch.clamp(1 - margin, min=0)
        return torch.where((1 - margin).abs() <= self._width, corner, outside)[:, 0]

    def slope(self, scores: Tensor) -> Tensor:
        share = (1 + self._width - self._signs * scores) / (2 * self._width)
        return -self._signs * share.clamp(0, 1)

    def bend(self, scores: Tensor, along: Tensor) -> Tensor:
        inside = (1 - self._signs * scores).abs() <= self._width
        return inside * along / (2 * self._width)


class _Huber:
    """Half the squared residual up to a threshold c, and c times its size beyond."""

    def __init__(self, targets: Tensor, threshold: float) -> None:
        self._targets = targets
        self._threshold = threshold

    def value(self, scores: Tensor) -> Tensor:
        size = (scores - self._targets).abs()
        near = torch.clamp(size, max=self._threshold)
        return (near * (size - near / 2))[:, 0]

    def slope(self, scores: Tensor) -> Tensor:
        return (scores - self._targets).clamp(-self._threshold, self._threshold)

    def bend(self, scores: Tensor, along: Tensor) -> Tensor:
        return ((scores - self._targets).abs() <= self._threshold) * along


class _Softmax:
    """The negative log probability of a record's class."""

    def __init__(self, classes: Tensor) -> None:
        self._classes = classes.reshape(-1, 1)

    def value(self, scores: Tensor) -> Tensor:
        return torch.logsumexp(scores, 1) - scores.gather(1, self._classes)[:, 0]

    def slope(self, scores: Tensor) -> Tensor:
        ones = torch.ones_like(self._classes, dtype=scores.dtype)
        return torch.softmax(scores, 1).scatter_add(1, self._classes, -ones)

    def bend(self, scores: Tensor, along: Tensor) -> Tensor:
        shares = torch.softmax(scores, 1)
        return shares * (along - (shares * along).sum(1, keepdim=True))
