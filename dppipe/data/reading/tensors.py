"""From arrays to datasets in memory: a record that can't be used is refused or dropped.

The refusal names its number, never its value. A dropped record keeps its place: its row becomes
zeros and is marked as invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dppipe.data.reading.bad_records import bad_record
from dppipe.data.reading.tasks import Task
from dppipe.data.reading.validity import with_valid

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch.utils.data import TensorDataset


def class_task(classes: int) -> Task:
    """Return the task of this many classes: two are binary."""
    return "binary" if classes == 2 else "multiclass"


def to_float32(array: numpy.ndarray) -> numpy.ndarray:
    """Return the numbers as 32-bit floats.

    A number that is too large becomes an infinity, which the checks below refuse.
    """
    import numpy

    with numpy.errstate(over="ignore"):
        return array.astype(numpy.float32)


def make_classified(
    inputs: numpy.ndarray, labels: numpy.ndarray, *, classes: int, place: str, drop: bool = False
) -> TensorDataset:  # [n, ...] of float32, [n] of integers
    """Make the dataset of a task with classes; labels are 0 to `classes - 1`."""
    import numpy

    known = (labels >= 0) & (labels < classes)
    if not drop:
        _refuse(known, fault=f"expected a label from 0 to {classes - 1}, got another.", place=place)
    targets = labels.astype(numpy.float32 if classes == 2 else numpy.int64)
    return _make(inputs, targets, usable=known, place=place, drop=drop)


def make_regression(
    inputs: numpy.ndarray, targets: numpy.ndarray, *, place: str, drop: bool = False
) -> TensorDataset:  # [n, ...], [n, outputs]
    """Make the dataset of a regression."""
    targets = to_float32(targets)
    finite = _finite_rows(targets)
    if not drop:
        _refuse(
            finite,
            fault="expected finite targets, got NaN or an infinity. Fix or drop the record.",
            place=place,
        )
    return _make(inputs, targets, usable=finite, place=place, drop=drop)


def _make(
    inputs: numpy.ndarray,
    targets: numpy.ndarray,
    *,
    usable: NDArray[numpy.bool_],
    place: str,
    drop: bool,
) -> TensorDataset:
    import torch
    from torch.utils.data import TensorDataset

    finite = _finite_rows(inputs)
    if not drop:
        _refuse(
            finite,
            fault="expected finite inputs, got NaN or an infinity. Fix or drop the record.",
            place=place,
        )
    valid = usable & finite
    inputs[~valid] = 0
    targets[~valid] = 0
    made = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(targets))
    return cast("TensorDataset", with_valid(made, valid)) if drop else made


def _refuse(usable: NDArray[numpy.bool_], *, fault: str, place: str) -> None:
    """Refuse data with a row that can't be used, and name the first such row."""
    import numpy

    if not usable.all():
        raise bad_record(f"{place}: record {int(numpy.argmin(usable)) + 1}", fault)


def _finite_rows(array: numpy.ndarray) -> NDArray[numpy.bool_]:  # [n, ...] -> [n]
    import numpy

    # The sum of finite float32 numbers in float64 is finite, so one pass without a mask is enough
    # in the usual case.
    with numpy.errstate(invalid="ignore"):
        total = array.sum(dtype=numpy.float64)
    if numpy.isfinite(total):
        return numpy.ones(len(array), dtype=bool)
    rows: NDArray[numpy.bool_] = numpy.isfinite(array.reshape(len(array), -1)).all(axis=1)
    return rows
