"""The Trainer as a private step's code sees it: it can be read, and nothing written to it leaves.

A `training_step` may ask for the epoch or the learning rate. What it passes to a logger, or sets on
an optimizer, would be a function of a record without noise. So loggers do nothing, and optimizers
are copies of their numbers.
"""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

import torch

READ = (type(None), bool, int, float, str, Enum, torch.device)
"""Types of the attributes that a step's code may read: values that can't be changed."""
SHARED = ("datamodule", "train_dataloader", "val_dataloaders")


class DoNothing:
    """A logger without effect: every attribute, call and item is this object again."""

    def __getattr__(self, name: str) -> DoNothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> DoNothing:
        """Do nothing."""
        return self

    def __getitem__(self, key: Any) -> DoNothing:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Do nothing."""

    def __deepcopy__(self, memo: Any) -> DoNothing:
        return self


class ReadOnlyTrainer:
    """Reads from a Trainer; whatever is set on it stays on this object alone."""

    def __init__(self, trainer: Any) -> None:
        vars(self)["_trainer"] = trainer
        self.callbacks: list[Any] = []
        self.lr_scheduler_configs: list[Any] = []

    def attach(self, module: Any) -> None:
        """Show this module where the Trainer's own would be found."""
        self.lightning_module = self.model = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(vars(self)["_trainer"], name)
        if isinstance(value, READ) or name in SHARED:
            return value
        if callable(value):
            return DoNothing()
        raise AttributeError(
            f"trainer.{name}: expected a number, a text or the data of the Trainer in a private "
            f"step, got {type(value).__name__}: what is written to it would leave without noise."
        )

    @property
    def logger(self) -> DoNothing:
        """A logger that keeps nothing."""
        return DoNothing()

    @property
    def loggers(self) -> list[DoNothing]:
        """One logger that keeps nothing."""
        return [DoNothing()]

    @property
    def optimizers(self) -> list[Any]:
        """The numbers of each optimizer's groups, as copies without parameters."""
        return [_numbers(optimizer) for optimizer in vars(self)["_trainer"].optimizers]

    def optimizer_views(self, use_pl_optimizer: bool = True) -> Any:
        """Return what `LightningModule.optimizers()` returns: one object, or a list of several."""
        views = self.optimizers
        return views[0] if len(views) == 1 else views

    @property
    def strategy(self) -> SimpleNamespace:
        """Nothing: a step's code has no use for devices and optimizers."""
        return SimpleNamespace()

    @property
    def callback_metrics(self) -> dict[str, Any]:
        """No metrics: a training step may not depend on them."""
        return {}

    logged_metrics = progress_bar_metrics = callback_metrics

    def __deepcopy__(self, memo: Any) -> ReadOnlyTrainer:
        return self


def _numbers(optimizer: Any) -> Any:
    groups = []
    for group in optimizer.param_groups:
        groups.append({name: value for name, value in group.items() if name != "params"})
    return SimpleNamespace(param_groups=groups)
