"""The Trainer as a private step's code sees it: it can be read, and nothing written to it leaves.

A `training_step` may ask for the epoch or the learning rate. What it hands to a logger, or sets on
an optimizer, would be an un-noised function of a record, so loggers swallow everything and
optimizers are copies of their numbers.
"""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

import torch

READ = (type(None), bool, int, float, str, Enum, torch.device)
"""What a step's code may read of a Trainer: values that can't be changed."""
HANDED_ON = ("datamodule", "train_dataloader", "val_dataloaders")


class Swallow:
    """Stands for a logger: every attribute, call and item is another one that does nothing."""

    def __getattr__(self, name: str) -> Swallow:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Swallow:
        """Do nothing."""
        return self

    def __getitem__(self, key: Any) -> Swallow:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Do nothing."""

    def __deepcopy__(self, memo: Any) -> Swallow:
        return self


class QuietTrainer:
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
        if isinstance(value, READ) or name in HANDED_ON:
            return value
        if callable(value):
            return Swallow()
        raise AttributeError(
            f"trainer.{name}: expected a number, a text or the data of the Trainer in a private step, got "
            f"{type(value).__name__}: what is written to it would leave without noise."
        )

    @property
    def logger(self) -> Swallow:
        """A logger that keeps nothing."""
        return Swallow()

    @property
    def loggers(self) -> list[Swallow]:
        """One logger that keeps nothing."""
        return [Swallow()]

    @property
    def optimizers(self) -> list[Any]:
        """The numbers of each optimizer's groups, as copies without parameters."""
        return [_numbers(optimizer) for optimizer in vars(self)["_trainer"].optimizers]

    def optimizer_views(self, use_pl_optimizer: bool = True) -> Any:
        """Return what stands for `LightningModule.optimizers()`: one object, or a list of several."""
        views = self.optimizers
        return views[0] if len(views) == 1 else views

    @property
    def strategy(self) -> SimpleNamespace:
        """Nothing: devices and optimizers are no affair of a step's code."""
        return SimpleNamespace()

    @property
    def callback_metrics(self) -> dict[str, Any]:
        """No metric: a training step follows none."""
        return {}

    logged_metrics = progress_bar_metrics = callback_metrics

    def __deepcopy__(self, memo: Any) -> QuietTrainer:
        return self


def _numbers(optimizer: Any) -> Any:
    groups = []
    for group in optimizer.param_groups:
        groups.append({name: value for name, value in group.items() if name != "params"})
    return SimpleNamespace(param_groups=groups)
