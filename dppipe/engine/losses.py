"""Losses as the engine takes them: one value for each row of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

StepLoss = Callable[[nn.Module, Any], Tensor]
"""`step(model, batch) -> scalar`: the mean loss of a batch, as a `training_step` returns it."""


@dataclass(frozen=True)
class SingletonLoss:
    """A per-sample loss that evaluates an ordinary step on every row as a batch of its own."""

    step: StepLoss

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:  # -> [B]
        """Give the step's loss on each row alone."""
        count = batch_rows(batch)
        if count == 1:
            return self.step(model, batch).reshape(1)
        return torch.stack([self.step(model, take_rows(batch, i, i + 1)).reshape(()) for i in range(count)])


def singleton_loss(step: StepLoss) -> SingletonLoss:
    """Make a per-sample loss of a step that returns the mean loss of its batch, whatever that mean divides by."""
    return SingletonLoss(step)


def batch_rows(batch: Any) -> int:
    """Give the number of rows of a batch: the first dimension of its tensors."""
    sizes = {leaf.shape[0] for leaf in tree_leaves(batch) if isinstance(leaf, Tensor) and leaf.dim()}
    if len(sizes) != 1:
        raise ValueError(f"batch: expected tensors with one common first dimension, got {sorted(sizes)}. Put the rows first.")
    return int(sizes.pop())


def take_rows(batch: Any, start: int, stop: int) -> Any:
    """Give a slice of a batch's rows as a batch."""
    return tree_map(lambda leaf: leaf[start:stop] if isinstance(leaf, Tensor) and leaf.dim() else leaf, batch)
