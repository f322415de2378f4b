"""A callback that notes, at every hook, all that a user's code could see there."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy
import pytorch_lightning as pl
import torch
from redteam.facts import Facts, describe, describe_module

if TYPE_CHECKING:
    from redteam.coupling import Trace


class Watch(pl.Callback):
    """Notes the module, its optimizer, its metrics and the learning rates at every hook of a fit.

    It also gives torch's, NumPy's and Python's public generators another state before each step, by `salt`, and notes how far
    the private step has moved them: model randomness that isn't secret shows as sums that differ, and what is drawn by the
    number of records as generators that were moved differently.
    """

    def __init__(self, trace: Trace, *, salt: int) -> None:
        self.trace = trace
        self._salt = salt

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._note(trainer, pl_module, "on_train_start")

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self.trace.step = trainer.global_step + 1
        self._note(trainer, pl_module, "on_train_batch_start")
        seed = 1000 * self._salt + self.trace.step
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        random.seed(seed)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self.trace.note("public generators", describe_generators())
        self._note(trainer, pl_module, "on_before_backward", loss=loss)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        gradients = {name: p.grad for name, p in pl_module.named_parameters()}
        self._note(trainer, pl_module, "on_before_optimizer_step", gradient=gradients)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._note(trainer, pl_module, "on_train_batch_end", outputs=outputs)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._note(trainer, pl_module, "on_train_epoch_end")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._note(trainer, pl_module, "on_validation_end")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._note(trainer, pl_module, "on_train_end")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.trace.note("on_exception", {"exception": f"{type(exception).__name__}: {exception}"})

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._note(trainer, pl_module, "teardown")

    def _note(self, trainer: Any, module: Any, hook: str, **seen: Any) -> None:
        self.trace.note(
            hook, describe_module(module, "module") | describe_trainer(trainer) | describe(seen)
        )


def describe_trainer(trainer: Any) -> Facts:
    """Return what a Trainer shows its callbacks: metrics, learning rates, the optimizer's state and how far it has come."""
    metrics = {
        "callback_metrics": trainer.callback_metrics,
        "logged_metrics": trainer.logged_metrics,
        "progress_bar_metrics": trainer.progress_bar_metrics,
    }
    shown = {
        "metrics": metrics,
        "learning rate": [
            [group["lr"] for group in optimizer.param_groups] for optimizer in trainer.optimizers
        ],
        "optimizer": [optimizer.state_dict() for optimizer in trainer.optimizers],
        "scheduler": [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs],
        "progress": [trainer.global_step, trainer.current_epoch, trainer.should_stop],
    }
    return describe(shown)


def describe_generators() -> Facts:
    """Return how far the generators that everybody shares have come in their blocks of numbers, whatever these are."""
    words = torch.get_rng_state().numpy()[: 3 * 8].view(numpy.int32)
    return {
        "torch": f"{words[2]} numbers left",
        "numpy": f"{numpy.random.get_state()[2]} numbers drawn",
        "random": f"{random.getstate()[1][-1]} numbers drawn",
    }
