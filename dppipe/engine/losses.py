"""Losses as the engine takes them: one value for each row of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

StepLoss = Callable[[nn.Module, Any], Tensor]
"""`step(model, batch) -> scalar`: the mean loss of a batch, as a `training_step` returns it."""

ONE_LOSS = (
    "its training_step gives one loss for a whole batch, so each example is made a batch of its own, which is slow; a method "
    "per_sample_loss(self, batch) that gives one loss for each example makes it fast"
)
"""Why a model with such a step is evaluated row by row. Looking for a mean that could be undone would be guessing: what the step
does with records that no check has seen is bounded only because no other record is there."""


@dataclass(frozen=True)
class SingletonLoss:
    """A per-sample loss that evaluates an ordinary step on every row as a batch of its own."""

    step: StepLoss

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:  # -> [B]
        """Give the step's loss on each row alone."""
        count = batch_rows(batch)
        if count == 1:
            return self.step(model, batch).reshape(1)
        return torch.stack(
            [self.step(model, take_rows(batch, i, i + 1)).reshape(()) for i in range(count)]
        )


def singleton_loss(step: StepLoss) -> SingletonLoss:
    """Make a per-sample loss of a step that returns the mean loss of its batch, whatever that mean divides by."""
    return SingletonLoss(step)


def batch_rows(batch: Any) -> int:
    """Give the number of rows of a batch: the first dimension of its tensors."""
    sizes = {
        leaf.shape[0] for leaf in tree_leaves(batch) if isinstance(leaf, Tensor) and leaf.dim()
    }
    if len(sizes) != 1:
        raise ValueError(
            f"batch: expected tensors with one common first dimension, got {sorted(sizes)}. Put the rows first."
        )
    return int(sizes.pop())


def take_rows(batch: Any, start: int, stop: int) -> Any:
    """Give a slice of a batch's rows as a batch."""
    return tree_map(
        lambda leaf: leaf[start:stop] if isinstance(leaf, Tensor) and leaf.dim() else leaf, batch
    )


def join_rows(rows: Sequence[Any]) -> list[Any]:
    """Join batches of rows into one batch for each structure and shape that they have."""
    groups: dict[Any, list[list[Any]]] = {}
    for row in rows:
        leaves, structure = tree_flatten(row)
        shapes = tuple(
            (tuple(leaf.shape[1:]), leaf.dtype) if _has_rows(leaf) else None for leaf in leaves
        )
        groups.setdefault((str(structure), shapes), []).append([structure, *leaves])
    joined = []
    for group in groups.values():
        columns = zip(*[leaves[1:] for leaves in group], strict=True)
        values = [torch.cat(column) if _has_rows(column[0]) else column[0] for column in columns]
        joined.append(tree_unflatten(values, group[0][0]))
    return joined


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0
