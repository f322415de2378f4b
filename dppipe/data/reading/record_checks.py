"""What makes a record usable: it can be read, its input fits and its target is in range.

An input fits if it has the stated shape and is finite. These checks are for data that dppipe
doesn't read from files itself: a user's own class, or a plugin's. `refuse` reads and checks every
record before anything is charged. With `drop` a bad training record is found when it is drawn, and
a bad one of the holdout before it is scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dppipe.data.reading.bad_records import bad_record
from dppipe.data.reading.each_record import Unreadable, read_each
from dppipe.data.reading.tasks import NO_TAG

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import Dataset, TensorDataset

    from dppipe.data.reading.tasks import Described, Task
    from dppipe.data.splitting.parts import Splits


class Facts(NamedTuple):
    """What is public about every record of some data."""

    task: Task
    input_shape: tuple[int, ...]
    outputs: int


def facts_of(data: Described) -> Facts:
    """Return what every record of this data must agree with."""
    return Facts(data.task, tuple(data.input_shape), data.outputs)


def refuse_bad_records(parts: Splits, data: Described) -> None:
    """Read all records, and refuse the data if one can't be used; the message names its index.

    The index is the one by which the user's own code finds the record: `dataset[17]`, or
    `train[17]` where `load` returns the parts.
    """
    whole = parts.test is None and parts.val is None
    for name, part in zip(parts._fields, parts, strict=True):
        faults = find_faults(part, facts_of(data)) if part is not None else []
        for index, fault in enumerate(faults):
            if fault is not None:
                place = f"data: {'dataset' if whole else name}[{index}]"
                raise bad_record(place, f"{fault}.")


def usable_part(dataset: Dataset[Any], data: Described) -> Dataset[Any]:
    """Return a dataset without the records that can't be used.

    It is the dataset itself where `load` or `refuse` has already checked the records.
    """
    import numpy

    from dppipe.data.splitting.parts import take

    if data.checks_records or not data.drops_bad_records:
        return dataset
    # A split that is scored has features in place of its inputs, where there are some.
    facts = Facts(data.task, data.model_input_shape, data.outputs)
    faults = find_faults(dataset, facts)
    usable = [row for row, fault in enumerate(faults) if fault is None]
    return take(dataset, numpy.array(usable, dtype=numpy.int64))


def find_faults(dataset: Dataset[Any], facts: Facts) -> list[str | None]:
    """Return what is wrong with each record, without its value; None for one that can be used."""
    from torch.utils.data import TensorDataset

    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return _find_faults_in_tensors(dataset, facts)
    faults: list[str | None] = []
    for found in read_each(dataset, lambda record: find_fault(record, facts)):
        if isinstance(found, Unreadable):
            faults.append(f"expected a record that can be read, got {found.reason}")
        else:
            faults.append(found)
    return faults


def _find_faults_in_tensors(dataset: TensorDataset, facts: Facts) -> list[str | None]:
    faults: list[str | None] = [None] * len(dataset)
    inputs, targets = dataset.tensors
    for expected, fits in _checks(inputs, targets, facts):
        for row in (~fits).nonzero().flatten().tolist():
            faults[row] = faults[row] or expected
    return faults


def find_fault(record: Any, facts: Facts) -> str | None:
    """Return what is wrong with one record, without its value; None if it can be used."""
    import torch

    if not (isinstance(record, tuple | list) and len(record) == 2):
        return "expected an item (input, target), got something else"
    inputs = torch.as_tensor(record[0])[None]
    targets = torch.as_tensor(record[1])[None] if _is_numeric(record[1]) else torch.zeros(1)
    for expected, fits in _checks(inputs, targets, facts):
        if not fits.all():
            return expected
    return None


# [n, ...], [n, ...] -> [n]
def _checks(inputs: Tensor, targets: Tensor, facts: Facts) -> Iterator[tuple[str, Tensor]]:
    """Yield what is expected of every row, and which rows have it."""
    import torch

    fits = torch.full((len(inputs),), tuple(inputs.shape[1:]) == facts.input_shape)
    yield f"expected an input of shape {list(facts.input_shape)}, got another", fits
    yield "expected finite inputs, got NaN or an infinity", _whole_rows(inputs.isfinite())
    if facts.task == "regression":
        yield "expected finite targets, got NaN or an infinity", _whole_rows(targets.isfinite())
        return
    lowest = NO_TAG if facts.task == "tagging" else 0
    highest = 1 if facts.task == "binary" else facts.outputs - 1
    yield (
        f"expected a target from {lowest} to {highest}, got another",
        _whole_rows((targets >= lowest) & (targets <= highest)),
    )


def _whole_rows(fits: Tensor) -> Tensor:  # [n, ...] -> [n]
    return fits.flatten(1).all(1) if fits.ndim > 1 else fits


def _is_numeric(value: Any) -> bool:
    """Return whether this is a target of a task; a user's own module may have other targets."""
    import numpy
    import torch

    return isinstance(value, torch.Tensor | numpy.ndarray | numpy.generic | bool | int | float)
