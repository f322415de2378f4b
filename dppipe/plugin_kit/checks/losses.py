"""Losses: one finite number for each record, which no other record has a part in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from dppipe.data.reading.tasks import Task
from dppipe.losses.base import Loss
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each

TASKS: dict[Task, tuple[int, ...]] = {"multiclass": (3, 2), "binary": (1,), "regression": (1, 2)}
"""Each task, with the numbers of outputs to try."""
ROWS = 5


def exercise(loss: Loss) -> Any:
    """Compute the losses of made-up predictions."""
    found = []
    for task, predictions, targets in _batches(loss):
        found.append(loss.per_record(predictions, targets, task=task).detach())
    return found


@check_each("loss")
def one_a_record(loss: Loss) -> Remark:
    """It is one finite number for each record, with a finite gradient, on each of its tasks."""
    tasks = []
    for task, predictions, targets in _batches(loss):
        losses = loss.per_record(predictions, targets, task=task)
        if losses.shape != (len(predictions),):
            raise Fault(
                f"expected {len(predictions)} losses, one for each record, got a tensor of shape "
                f"{tuple(losses.shape)}. Reduce the outputs of a record only."
            )
        losses.sum().backward()  # type: ignore[no-untyped-call]
        gradient = cast("Tensor", predictions.grad)
        if not (losses.isfinite().all() and gradient.isfinite().all()):
            raise Fault(f"expected finite losses and gradients of a {task} task, got others.")
        tasks.append(task)
    if not tasks:
        raise Fault("expected a loss that takes one of the tasks, got none. Correct `tasks`.")
    return ", ".join(dict.fromkeys(tasks))


@check_each("loss")
def no_other_record(loss: Loss) -> Remark:
    """The loss of a record is what it is without the others."""
    for task, predictions, targets in _batches(loss):
        together = loss.per_record(predictions, targets, task=task)
        for row in range(len(predictions)):
            one = slice(row, row + 1)
            alone = loss.per_record(predictions[one], targets[one], task=task)
            if not torch.allclose(alone, together[one], rtol=1e-5, atol=1e-7):
                raise Fault(
                    f"expected the same loss of record {row} alone and among others of a {task} "
                    "task, got another. Leave out means over the batch."
                )
    return None


def _batches(loss: Loss) -> Iterator[tuple[Task, Tensor, Tensor]]:
    """Yield made-up predictions and targets of each task that the options fit."""
    for task, sizes in TASKS.items():
        for outputs in sizes:
            if any(loss.problems(task=task, outputs=outputs)):
                continue
            generator = torch.Generator().manual_seed(outputs)
            predictions = 3 * torch.randn(ROWS, outputs, generator=generator)
            if task == "multiclass":
                targets = torch.arange(ROWS) % outputs
            elif task == "binary":
                targets = (torch.arange(ROWS) % 2).float()
            else:
                targets = torch.randn(ROWS, outputs, generator=generator)
            yield task, predictions.requires_grad_(), targets
