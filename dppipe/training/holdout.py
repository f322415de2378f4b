"""Validation on private records: no record of the holdout ends a run, and validation leaves no trace.

The metrics of a private holdout stand under `nonprivate/`. Nothing else may depend on its records:
not whether the run goes on, not what the module holds when training goes on. What decides how training
goes on, the learning rate included, is put back by `provenance.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from dppipe.engine.losses import batch_rows, join_rows, take_rows
from dppipe.training.faults import is_machine_fault
from dppipe.training.made_up import made_up_examples
from dppipe.training.module_snapshot import ModuleSnapshot
from dppipe.training.module_state import VALIDATION_HOOKS
from dppipe.training.networks import index_argument
from dppipe.training.patches import Patches
from dppipe.training.rehearsal import naming_mistakes

MADE_UP_ROWS = 2


class Broken:
    """Stands for a record that can't be read, or a batch without one that can."""

    def to(self, *args: Any, **kwargs: Any) -> Broken:
        """Stay where it is."""
        return self


class PrivateHoldout:
    """Guards a fit against the records that it is validated on."""

    def __init__(self, trainer: Any, module: Any) -> None:
        self._trainer = trainer
        self._module = module
        self._patches = Patches()
        self._before: ModuleSnapshot | None = None
        for loader in _loaders(trainer):
            self._patches.put(loader, "dataset", ReadableRecords(loader.dataset))
            self._patches.put(loader, "collate_fn", partial(_collate, loader.collate_fn))
        self._patches.put(module, "validation_step", _shaped_like(module.validation_step, self._step))
        self._patches.put(module, "on_validation_end", _shaped_like(module.on_validation_end, self._end))
        for name in VALIDATION_HOOKS:
            self._patches.put(module, name, _unbroken(getattr(module, name)))

    def rehearse(self, replica: nn.Module) -> None:
        """Try the module's validation on made-up rows, so that a mistake in it shows."""
        loaders = _loaders(self._trainer)
        records: Any = loaders[0].dataset if len(loaders) == 1 else None
        example = records.first() if records is not None else None
        if example is None:
            return
        batch = loaders[0].collate_fn(made_up_examples(example)[:MADE_UP_ROWS])
        kind: Any = type(replica)
        step: Callable[..., Any] = kind.validation_step
        with naming_mistakes(batch), torch.no_grad():
            step(replica, self._trainer.strategy.batch_to_device(batch), *index_argument(step))

    def begin(self) -> None:
        """Remember what validation may not change on the module."""
        self._before = ModuleSnapshot(self._module)

    def undo(self) -> None:
        """Take everything off the module and the loaders again."""
        self._patches.undo()

    def _end(self) -> None:
        try:
            _unbroken(partial(type(self._module).on_validation_end, self._module))()
        finally:
            if self._before is not None:
                self._before.restore()
                self._before = None

    def _step(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        step = partial(type(self._module).validation_step, self._module)
        if isinstance(batch, Broken):
            return None
        try:
            return step(batch, *args, **kwargs)
        except Exception as error:
            if is_machine_fault(error):
                raise
        kept = self._evaluable(step, batch, args)
        return _unbroken(step)(kept, *args, **kwargs) if kept is not None else None

    def _evaluable(self, step: Callable[..., Any], batch: Any, args: tuple[Any, ...]) -> Any:
        """Return a batch of the rows that can be validated alone; None if there are none."""
        try:
            rows = [take_rows(batch, place, place + 1) for place in range(batch_rows(batch))]
        except ValueError:
            return None
        with _silent(self._module), torch.no_grad():
            kept = [row for row in rows if _runs(step, row, *args)]
        return join_rows(kept)[0] if kept else None


class ReadableRecords(Dataset[Any]):
    """A data set of which a record that can't be read is a `Broken`."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        try:
            return self._dataset[index]
        except Exception as error:
            if is_machine_fault(error):
                raise
            return Broken()

    def first(self) -> Any:
        """Return the first record that can be read, for its shape alone."""
        found = (self[index] for index in range(len(self)))
        return next((example for example in found if not isinstance(example, Broken)), None)


def _collate(collate: Callable[[list[Any]], Any], examples: list[Any]) -> Any:
    kept = [example for example in examples if not isinstance(example, Broken)]
    for attempt in (kept, [example for example in kept if _runs(collate, [example])]):
        try:
            return collate(attempt) if attempt else Broken()
        except Exception as error:
            if is_machine_fault(error):
                raise
    return Broken()


def _runs(function: Callable[..., Any], *args: Any) -> bool:
    try:
        function(*args)
    except Exception as error:
        if is_machine_fault(error):
            raise
        return False
    return True


def _unbroken(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook whose errors end nothing."""

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception as error:
            if is_machine_fault(error):
                raise
            return None

    return _shaped_like(hook, called)


def _shaped_like(hook: Callable[..., Any], called: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called like a hook: a Trainer looks at its signature."""

    @wraps(hook)
    def shaped(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    return shaped


def _loaders(trainer: Any) -> list[DataLoader[Any]]:
    if not trainer.enable_validation:
        return []
    loop = trainer.fit_loop.epoch_loop.val_loop
    loop.setup_data()  # as the loop itself does next; a second call changes nothing
    combined = loop._combined_loader
    found = combined.flattened if combined is not None else []
    return [loader for loader in found if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset)]


@contextmanager
def _silent(module: nn.Module) -> Iterator[None]:
    patches = Patches()
    for name in ("log", "log_dict"):
        patches.put(module, name, lambda *args, **kwargs: None)
    try:
        yield
    finally:
        patches.undo()
