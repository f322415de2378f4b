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
    "its training_step gives one loss for a whole batch, so each example is made a batch of its "
    "own, which is slow; a method per_sample_loss(self, batch) that gives one loss for each "
    "example makes it fast"
)
"""Why a model with such a step is evaluated row by row.

To look for a mean that could be undone would be guessing: what the step does with records that no
check has seen is bounded only because no other record is in the batch.
"""


@dataclass(frozen=True)
class SingletonLoss:
    """A per-sample loss that evaluates an ordinary step on every row as a batch of its own."""

    step: StepLoss

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:  # -> [B]
        """Return the step's loss on each row alone."""
        count = batch_rows(batch)
        if count == 1:
            return self.step(model, batch).reshape(1)
        losses = []
        for i in range(count):
            losses.append(self.step(model, take_rows(batch, i, i + 1)).reshape(()))
        return torch.stack(losses)


def singleton_loss(step: StepLoss) -> SingletonLoss:
    """Return a per-sample loss for a step that returns the mean loss of its batch.

    It doesn't matter what that mean divides by.

    Example:
        >>> from dppipe.engine import singleton_loss
        >>> loss = singleton_loss(lambda model, batch: model(batch[0]).square().mean())
    """
    return SingletonLoss(step)


def batch_rows(batch: Any) -> int:
    """Return the number of rows of a batch: the first dimension of its tensors."""
    sizes = set()
    for leaf in tree_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.dim():
            sizes.add(leaf.shape[0])
    if len(sizes) != 1:
        raise ValueError(
            "batch: expected tensors with one common first dimension, "
            f"got {sorted(sizes)}. Put the rows first."
        )
    return int(sizes.pop())


def take_rows(batch: Any, start: int, stop: int) -> Any:
    """Return a slice of a batch's rows as a batch."""

    def take(leaf: Any) -> Any:
        return leaf[start:stop] if _has_rows(leaf) else leaf

    return tree_map(take, batch)


def join_rows(rows: Sequence[Any]) -> list[Any]:
    """Join batches of rows into one batch for each structure and shape that they have."""
    groups: dict[Any, list[list[Any]]] = {}
    structures: dict[Any, Any] = {}
    for row in rows:
        leaves, structure = tree_flatten(row)
        key = (str(structure), tuple(map(_row_type, leaves)))
        structures.setdefault(key, structure)
        groups.setdefault(key, []).append(leaves)
    joined = []
    for key, group in groups.items():
        values = [_join(column) for column in zip(*group, strict=True)]
        joined.append(tree_unflatten(values, structures[key]))
    return joined


def _row_type(leaf: Any) -> tuple[tuple[int, ...], torch.dtype] | None:
    return (tuple(leaf.shape[1:]), leaf.dtype) if _has_rows(leaf) else None


def _join(column: tuple[Any, ...]) -> Any:
    return torch.cat(column) if _has_rows(column[0]) else column[0]


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0
