"""Validation on private records: no record of the holdout ends a run, and none leaves a trace.

Metrics of a private holdout have names under `nonprivate/`. Nothing else may depend on its records:
not whether the run goes on, not what is printed. What validation changes on the Trainer, the
module, the optimizers or callbacks is put back by `provenance.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from dppipe.engine.losses import batch_rows, join_rows, take_rows
from dppipe.errors import PrivacyRefusal
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.made_up import made_up_examples
from dppipe.learners.records.silenced_output import silenced
from dppipe.lightning.isolation.callback_snapshot import users_callbacks
from dppipe.lightning.isolation.module_state import VALIDATION_HOOKS
from dppipe.lightning.isolation.readable_records import (
    Broken,
    ReadableRecords,
    ReadableStream,
    collate_readable,
    readable,
    runs_without_error,
)
from dppipe.lightning.isolation.rehearsal import naming_mistakes
from dppipe.lightning.names.namespaces import is_overridden
from dppipe.lightning.networks import index_argument
from dppipe.lightning.patches import Patches

MADE_UP_ROWS = 2
_MODE_HOOKS = ("on_validation_model_eval", "on_validation_model_train")


class PrivateHoldout:
    """Guards a fit against the records that it is validated on."""

    def __init__(self, trainer: Any, module: Any) -> None:
        self._trainer = trainer
        self._module = module
        self._patches = Patches()
        self._guard_loaders()
        step = _with_signature_of(module.validation_step, self._step)
        self._patches.put(module, "validation_step", step)
        self._guard_hooks(module, VALIDATION_HOOKS)
        self._guard_hooks(module, [name for name in _MODE_HOOKS if is_overridden(name, module)])
        for callback in users_callbacks(trainer):
            self._guard_hooks(callback, (*VALIDATION_HOOKS, "on_sanity_check_end"))

    def _guard_hooks(self, owner: Any, names: Any) -> None:
        for name in names:
            self._patches.put(owner, name, _never_raising(getattr(owner, name)))

    def _guard_loaders(self) -> None:
        """Have loaders leave out records that can't be read, also loaders that are made later."""
        if not self._trainer.enable_validation:
            return
        loop = self._trainer.fit_loop.epoch_loop.val_loop
        make_loaders: Callable[[], None] = loop.setup_data

        def setup_data() -> None:
            make_loaders()
            for loader in _loaders(self._trainer):
                if not isinstance(loader.dataset, (ReadableRecords, ReadableStream)):
                    collate = partial(collate_readable, loader.collate_fn)
                    self._patches.put(loader, "dataset", readable(loader.dataset))
                    self._patches.put(loader, "collate_fn", collate)

        self._patches.put(loop, "setup_data", setup_data)
        setup_data()  # as the loop itself does next; a second call changes nothing

    def rehearse(self, replica: nn.Module) -> None:
        """Try the module's validation on made-up rows, so that a mistake in it shows."""
        loaders = _loaders(self._trainer)
        records: Any = loaders[0].dataset if len(loaders) == 1 else None
        example = records.first() if isinstance(records, ReadableRecords) else None
        if example is None:
            return
        batch = loaders[0].collate_fn(made_up_examples(example)[:MADE_UP_ROWS])
        kind: Any = type(replica)
        step: Callable[..., Any] = kind.validation_step
        with naming_mistakes(batch), torch.no_grad():
            step(replica, self._trainer.strategy.batch_to_device(batch), *index_argument(step))

    def undo(self) -> None:
        """Leave the module, the callbacks and the loaders as they were."""
        self._patches.undo()

    def _step(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        step = partial(type(self._module).validation_step, self._module)
        if isinstance(batch, Broken):
            return None
        with silenced():
            with SuppressRecordErrors():
                return step(batch, *args, **kwargs)
            usable = self._usable_rows(step, batch, args)
        if usable is None:
            return None
        return _never_raising(step)(usable, *args, **kwargs)

    def _usable_rows(self, step: Callable[..., Any], batch: Any, args: tuple[Any, ...]) -> Any:
        """Return a batch of the rows that can be validated alone; None if there are none."""
        try:
            rows = [take_rows(batch, place, place + 1) for place in range(batch_rows(batch))]
        except ValueError:
            return None
        with _without_logging(self._module), torch.no_grad():
            usable = [row for row in rows if runs_without_error(step, row, *args)]
        return join_rows(usable)[0] if usable else None


def _never_raising(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook whose errors end nothing, and whose output is dropped."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with SuppressRecordErrors(), silenced():
            return hook(*args, **kwargs)
        return None

    return _with_signature_of(hook, called)


def _with_signature_of(hook: Callable[..., Any], called: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called like a hook: a Trainer looks at its signature."""

    @wraps(hook)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    return wrapped


def _loaders(trainer: Any) -> list[DataLoader[Any]]:
    if not trainer.enable_validation:
        return []
    combined = trainer.fit_loop.epoch_loop.val_loop._combined_loader
    found = combined.flattened if combined is not None else []
    for loader in found:
        if not isinstance(loader, (DataLoader, list, tuple)):
            raise PrivacyRefusal(
                "val_dataloaders: expected a DataLoader for a private holdout, got "
                f"{type(loader).__name__}: an error over one of its records would end the run. "
                "Use a DataLoader, or declare the holdout public if it is."
            )
    return [loader for loader in found if isinstance(loader, DataLoader)]


@contextmanager
def _without_logging(module: nn.Module) -> Iterator[None]:
    patches = Patches()
    for name in ("log", "log_dict"):
        patches.put(module, name, lambda *args, **kwargs: None)
    try:
        yield
    finally:
        patches.undo()
