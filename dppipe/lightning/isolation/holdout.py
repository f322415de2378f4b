"""Validation on private records: no record of the holdout ends a run, and validation leaves no trace.

The metrics of a private holdout stand under `nonprivate/`. Nothing else may depend on its records:
not whether the run goes on, not what is printed. What validation changes on the Trainer, the module,
the optimizers or callbacks is put back by `provenance.py`.
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
from dppipe.errors import RECORD_ERRORS, PrivacyRefusal
from dppipe.learners.records.faults import is_machine_fault
from dppipe.learners.records.made_up import made_up_examples
from dppipe.lightning.isolation.callback_snapshot import users_callbacks
from dppipe.lightning.isolation.module_state import VALIDATION_HOOKS
from dppipe.lightning.isolation.rehearsal import naming_mistakes
from dppipe.lightning.namespaces import is_overridden
from dppipe.lightning.networks import index_argument, unheard
from dppipe.lightning.patches import Patches

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
        self._guard_loaders()
        self._patches.put(
            module, "validation_step", _shaped_like(module.validation_step, self._step)
        )
        for name in VALIDATION_HOOKS:
            self._patches.put(module, name, _unbroken(getattr(module, name)))
        for name in ("on_validation_model_eval", "on_validation_model_train"):
            if is_overridden(name, module):
                self._patches.put(module, name, _unbroken(getattr(module, name)))
        for callback in users_callbacks(trainer):
            for name in (*VALIDATION_HOOKS, "on_sanity_check_end"):
                self._patches.put(callback, name, _unbroken(getattr(callback, name)))

    def _guard_loaders(self) -> None:
        """Let loaders leave out what can't be read; those that a Trainer asks for later as well."""
        if not self._trainer.enable_validation:
            return
        loop = self._trainer.fit_loop.epoch_loop.val_loop
        ask: Callable[[], None] = loop.setup_data

        def setup_data() -> None:
            ask()
            for loader in _loaders(self._trainer):
                if not isinstance(loader.dataset, (ReadableRecords, ReadableStream)):
                    self._patches.put(loader, "dataset", _readable(loader.dataset))
                    self._patches.put(loader, "collate_fn", partial(_collate, loader.collate_fn))

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
        """Take everything off the module and the loaders again."""
        self._patches.undo()

    def _step(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        step = partial(type(self._module).validation_step, self._module)
        if isinstance(batch, Broken):
            return None
        with unheard():
            try:
                return step(batch, *args, **kwargs)
            except RECORD_ERRORS as error:
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
            with unheard():
                return self._dataset[index]
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise
            return Broken()

    def first(self) -> Any:
        """Return the first record that can be read, for its shape alone."""
        found = (self[index] for index in range(len(self)))
        return next((example for example in found if not isinstance(example, Broken)), None)


def _readable(dataset: Dataset[Any]) -> Dataset[Any]:
    return (
        ReadableStream(dataset)
        if isinstance(dataset, IterableDataset)
        else ReadableRecords(dataset)
    )


class ReadableStream(IterableDataset[Any]):
    """A data set that streams its records, and ends where one can't be read."""

    def __init__(self, dataset: IterableDataset[Any]) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        try:
            with unheard():
                records = iter(self._dataset)
            while True:
                with unheard():
                    record = next(records)
                yield record
        except StopIteration:
            return
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise


def _collate(collate: Callable[[list[Any]], Any], examples: list[Any]) -> Any:
    kept = [example for example in examples if not isinstance(example, Broken)]
    for attempt in (kept, [example for example in kept if _runs(collate, [example])]):
        try:
            with unheard():
                return collate(attempt) if attempt else Broken()
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise
    return Broken()


def _runs(function: Callable[..., Any], *args: Any) -> bool:
    try:
        with unheard():
            function(*args)
    except RECORD_ERRORS as error:
        if is_machine_fault(error):
            raise
        return False
    return True


def _unbroken(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook whose errors end nothing, and of which nothing is heard."""

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            with unheard():
                return hook(*args, **kwargs)
        except RECORD_ERRORS as error:
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
    combined = trainer.fit_loop.epoch_loop.val_loop._combined_loader
    found = combined.flattened if combined is not None else []
    for loader in found:
        if not isinstance(loader, (DataLoader, list, tuple)):
            raise PrivacyRefusal(
                f"val_dataloaders: expected a DataLoader for a private holdout, got {type(loader).__name__}: an error over "
                "one of its records would end the run. Use a DataLoader, or declare the holdout public if it is."
            )
    return [loader for loader in found if isinstance(loader, DataLoader)]


@contextmanager
def _silent(module: nn.Module) -> Iterator[None]:
    patches = Patches()
    for name in ("log", "log_dict"):
        patches.put(module, name, lambda *args, **kwargs: None)
    try:
        yield
    finally:
        patches.undo()
