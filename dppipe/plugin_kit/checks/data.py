"""Data kinds: a plan's questions are answered without reading a record, and the records agree with
the answers.

No message here contains anything of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from dppipe.data.base import Data, Splits, Task
from dppipe.errors import UsageError
from dppipe.plugin_kit.checks.memory import digest
from dppipe.plugin_kit.checks.record_forms import require_batch, within_range
from dppipe.plugin_kit.checks.table import Fault, Remark, Trial, check_kind

LOOKED_AT = 500
"""How many records of each split are looked at."""
SMALL = 100_000
"""Bytes below which reading isn't worth telling apart from a header."""


def exercise(data: Data) -> Any:
    """Ask what a plan asks."""
    return [
        data.count(),
        data.train_count(),
        tuple(data.input_shape),
        data.outputs,
        data.task,
        data.synthetic(3),
    ]


@check_kind("data")
def no_record_is_read(trial: Trial) -> Remark:
    """No record is read for counts, shapes and made-up batches."""
    unread: Any = type(
        "Unread",
        (trial.cls,),
        {"__module__": trial.cls.__module__, "load": _refuse, "splits": _refuse},
    )
    exercise(unread.from_data(_options(trial), context=trial.registry))
    before = _bytes_read()
    _fresh(trial).count()
    counted = _bytes_read() - before
    _fresh(trial).load()
    loaded = _bytes_read() - before - counted
    if loaded > SMALL and counted > loaded / 2:
        raise Fault(
            f"expected count() to read a header at most, got {counted} bytes of the "
            f"{loaded} that load() reads."
        )
    return None


@check_kind("data")
def facts_fit(trial: Trial) -> Remark:
    """Count, shape, task and outputs fit together."""
    data = _fresh(trial)
    if data.task not in get_args(Task):
        raise Fault(f"expected task {' or '.join(get_args(Task))}, got {data.task!r}.")
    if (
        data.count() < 1
        or data.outputs < 1
        or not all(isinstance(size, int) and size > 0 for size in data.input_shape)
    ):
        raise Fault(
            "expected at least one record, one output and an input shape of sizes > 0, got less."
        )
    if not 0 < data.train_count() <= data.count():
        raise Fault(f"expected 1 to {data.count()} training records, got {data.train_count()}.")
    if data.task == "binary" and data.outputs != 1:
        raise Fault(f"expected 1 output of a binary task, got {data.outputs}.")
    return f"{data.count()} records of shape {tuple(data.input_shape)}, {data.task}"


@check_kind("data")
def counts_agree(trial: Trial) -> Remark:
    """As many records are loaded as were counted."""
    data = _fresh(trial)
    splits = _splits(trial)
    found = _length(splits.train)
    if found != data.train_count():
        raise Fault(
            f"expected {data.train_count()} training records, as train_count() says, got "
            f"{found}. Fix count()."
        )
    _, val, test = data.split.counts(data.count())
    if _length(splits.val) != val:
        raise Fault(f"expected {val} validation records, got {_length(splits.val)}.")
    if test and not _length(splits.test):
        raise Fault("expected test records, as the split says, got none.")
    return None


@check_kind("data")
def stays_in_memory(trial: Trial) -> Remark:
    """What is loaded as tensors stays tensors in every split."""
    loaded = _fresh(trial).load()
    whole = loaded[0] if isinstance(loaded, tuple) else loaded
    if isinstance(whole, TensorDataset):
        for split in _splits(trial):
            if split is not None and not isinstance(split, TensorDataset):
                raise Fault(f"expected a TensorDataset in each split, got {type(split).__name__}.")
    return None


@check_kind("data")
def wrong_count_is_refused(trial: Trial) -> Remark:
    """A stated number of records that isn't theirs is refused."""
    data = _fresh(trial)
    wrong = _changed(trial, records=data.count() + 1)
    try:
        wrong.count()
        wrong.splits(seed=0)
    except UsageError as error:
        if "records" in str(error):
            return None
        raise
    raise Fault(f"expected records: {data.count() + 1} to be refused, got {data.count()} records.")


@check_kind("data")
def all_can_be_trained_on(trial: Trial) -> Remark:
    """With `split: {train: 1, val: 0, test: 0}`, all records are trained on."""
    whole = _changed(trial, split={"train": 1, "val": 0, "test": 0})
    splits = whole.splits(seed=0)
    found = _length(splits.train)
    if not found == whole.train_count() == whole.count() or splits.val is not None:
        raise Fault(f"expected all {whole.count()} records in the training split, got {found}.")
    return None


@check_kind("data")
def global_generators_untouched(trial: Trial) -> Remark:
    """No global random generator moves."""
    import random

    import numpy

    def generators() -> str:
        return digest([torch.get_rng_state(), numpy.random.get_state(), random.getstate()])

    before = generators()
    _fresh(trial).splits(seed=3)
    _fresh(trial).synthetic(4)
    if generators() != before:
        raise Fault("expected random generators as they were, got them moved. Draw from your own.")
    return None


@check_kind("data")
def records_fit(trial: Trial) -> Remark:
    """Records have the shape and type of their task, labels are in range."""
    data = _fresh(trial)
    remark = None
    for inputs, targets in _batches(_splits(trial)):
        require_batch(data, inputs, targets, what="a record")
        allowed = data.ranges[0]
        if allowed is not None and not within_range(inputs, allowed):
            raise Fault("expected inputs within `ranges`, got a record outside.")
        if inputs.dtype != torch.float32 and data.input_layout.vocabulary is None:
            remark = f"inputs are {inputs.dtype}, not torch.float32"
        if not inputs.isfinite().all():
            raise Fault("expected finite inputs, got others in some record.")
        if data.task == "multiclass" and not ((targets >= 0) & (targets < data.outputs)).all():
            raise Fault(f"expected labels from 0 to {data.outputs - 1}, got one outside.")
        if data.task == "binary" and not ((targets == 0) | (targets == 1)).all():
            raise Fault("expected targets 0.0 and 1.0 of a binary task, got another.")
    return remark


@check_kind("data")
def synthetic_fits(trial: Trial) -> Remark:
    """Made-up batches of 0, 1 and 5 examples look like real ones."""
    data = _fresh(trial)
    real = next(_batches(_splits(trial)))
    for n in (0, 1, 5):
        inputs, targets = data.synthetic(n)
        if len(inputs) != n or len(targets) != n:
            raise Fault(
                f"expected {n} made-up examples, got {len(inputs)} inputs and "
                f"{len(targets)} targets."
            )
        for ours, theirs, name in zip((inputs, targets), real, ("inputs", "targets"), strict=True):
            if (ours.shape[1:], ours.dtype) != (theirs.shape[1:], theirs.dtype):
                got, wanted = (
                    f"{tuple(ours.shape[1:])} {ours.dtype}",
                    f"{tuple(theirs.shape[1:])} {theirs.dtype}",
                )
                raise Fault(
                    f"expected made-up {name} like real ones, {wanted}, got {got}. Leave "
                    "synthetic() out, or fix it."
                )
    inputs, _ = data.synthetic(5)
    allowed = data.ranges[0]
    if allowed is not None and not within_range(inputs, allowed):
        raise Fault("expected made-up inputs within `ranges`, got others. Fix synthetic().")
    if any(torch.equal(row, record) for row in inputs for record in real[0]):
        raise Fault(
            "expected made-up examples, got a record. They feed checks that aren't private."
        )
    return None


@check_kind("data")
def loads_the_same(trial: Trial) -> Remark:
    """The same records come in the same order, whatever was drawn before."""
    import random

    import numpy

    found, kept = set(), (random.getstate(), numpy.random.get_state())
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            torch.manual_seed(seed)
            numpy.random.seed(seed)
            random.seed(seed)
            found.add(digest(list(_batches(_fresh(trial).splits(seed=0)))))
    random.setstate(kept[0])
    numpy.random.set_state(kept[1])
    if len(found) > 1:
        raise Fault(
            "expected the same records each time, got others. Draw nothing, or from a seed "
            "that is an option."
        )
    if digest(list(_batches(_fresh(trial).splits(seed=1)))) in found:
        return "the split doesn't follow the seed"
    return None


def _length(split: Any) -> int:
    return 0 if split is None else len(split)


def _changed(trial: Trial, **options: Any) -> Data:
    """Make the data with other options."""
    return cast(Data, trial.cls.from_data(_options(trial) | options, context=trial.registry))


def _fresh(trial: Trial) -> Data:
    """Make the data anew, so that nothing is remembered from another check."""
    return cast(Data, trial.cls.from_data(_options(trial), context=trial.registry))


def _options(trial: Trial) -> dict[str, Any]:
    return {name: value for name, value in trial.made[0].to_data().items() if name != "kind"}


@lru_cache(maxsize=1)
def _splits(trial: Trial) -> Splits:
    """Read the records once for the checks that only look at them."""
    return _fresh(trial).splits(seed=0)


def _batches(splits: Splits) -> Iterator[tuple[Tensor, Tensor]]:
    for split in splits:
        if split is not None and len(cast(Sized, split)):
            yield default_collate(
                [split[row] for row in range(min(LOOKED_AT, len(cast(Sized, split))))]
            )


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Fault(
        "expected count(), input_shape, outputs, task and synthetic() to do without "
        "load(), got a call of it."
    )


def _bytes_read() -> int:
    """Return how many bytes this process has read so far; 0 where the system doesn't say."""
    try:
        return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
