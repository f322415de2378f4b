"""What decides how training goes on: whether the Trainer stops, and the optimizers' settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    import pytorch_lightning as pl


class Controls:
    """The controls of a Trainer as they were, to be put back after code that may not use them.

    Code that scores a private holdout sees its records without noise. If it could stop the run or
    change the learning rate, the trained weights would follow those records.
    """

    def __init__(self, trainer: pl.Trainer) -> None:
        self._trainer = trainer
        self._should_stop = trainer.should_stop
        self._settings: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                self._settings.append((group, _copied(group)))

    def restore(self) -> None:
        """Put everything back as it was."""
        self._trainer.should_stop = self._should_stop
        for group, before in self._settings:
            for name, value in before.items():
                if isinstance(value, Tensor) and isinstance(group.get(name), Tensor):
                    group[name].copy_(value)
                else:
                    group[name] = value


def _copied(group: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = {}
    for name, value in group.items():
        if name != "params":
            copied[name] = value.clone() if isinstance(value, Tensor) else value
    return copied
