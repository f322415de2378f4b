"""A snapshot of the user's callbacks, to be put back after code that has seen private records.

A callback may keep the outputs of private validation and stop the run by them later. So changes of
callbacks are undone after each validation, as they are for the module.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, Dataset

from dppipe.lightning.isolation.held_objects import find_held
from dppipe.lightning.isolation.library_code import FRAMEWORK
from dppipe.lightning.isolation.module_copies import copy_value, refill, shared_objects
from dppipe.lightning.isolation.module_state import class_containers
from dppipe.lightning.isolation.object_snapshot import CODE, ObjectSnapshot

if TYPE_CHECKING:
    import pytorch_lightning as pl


def users_callbacks(trainer: pl.Trainer) -> list[Any]:
    """Return the callbacks whose class is neither Lightning's nor dppipe's own."""
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    return [each for each in callbacks if not type(each).__module__.startswith(FRAMEWORK)]


class CallbackSnapshot:
    """The state of the user's callbacks at one moment.

    An object that can't be copied, such as an open file, is left as it is.
    """

    def __init__(self, trainer: pl.Trainer) -> None:
        self._kept: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        callbacks = users_callbacks(trainer)
        memo = _shared(trainer)
        code: list[Any] = []
        for callback in callbacks:
            code += [value for value in vars(callback).values() if isinstance(value, CODE)]
            held = _copies(vars(callback), memo)
            of_class = _copies(class_containers(type(callback)), memo)
            self._kept.append((callback, held, of_class))
        self._captured = ObjectSnapshot(code)

    def restore(self) -> None:
        """Undo changes since the snapshot."""
        self._captured.restore()
        for callback, held, of_class in self._kept:
            vars(callback).clear()
            vars(callback).update(held)
            for name, container in class_containers(type(callback)).items():
                refill(container, of_class[name])


def _copies(held: dict[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    copies: dict[str, Any] = {}
    for name, value in held.items():
        copies[name] = value
        if not isinstance(value, CODE):
            with suppress(Exception):
                copies[name] = copy_value(value, dict(memo))
    return copies


def _shared(trainer: pl.Trainer) -> dict[int, Any]:
    """Return what is never copied with a callback: the Trainer, the module, loggers and data."""
    memo = shared_objects(trainer.lightning_module, frozen=False)
    parts = [trainer, trainer.strategy, trainer.datamodule, *trainer.loggers]  # type: ignore[attr-defined]
    parts += trainer.callbacks  # type: ignore[attr-defined]
    for callback in users_callbacks(trainer):
        parts += find_held(vars(callback).values(), (Dataset, DataLoader))
    for part in parts:
        memo[id(part)] = part
    return memo
