"""From arrays to data sets in memory: what can't be trained on is refused by the number of its record, never by its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.data.base import Task
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from torch.utils.data import TensorDataset


def class_task(classes: int) -> Task:
    """Give the task of telling so many classes apart: two are binary."""
    return "binary" if classes == 2 else "multiclass"


def to_float32(array: numpy.ndarray) -> numpy.ndarray:
    """Give these numbers as 32-bit floats; one that is too large becomes an infinity, which the checks below refuse."""
    import numpy

    with numpy.errstate(over="ignore"):
        return array.astype(numpy.float32)


def make_classified(
    inputs: numpy.ndarray, labels: numpy.ndarray, *, classes: int, place: str
) -> TensorDataset:  # [n, ...] of float32, [n] of integers
    """Make the data set of a task with classes; labels are 0 to `classes - 1`."""
    import numpy

    wrong = numpy.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise UsageError(f"{place}: record {wrong[0] + 1}: expected a label from 0 to {classes - 1}, got another.")
    return _make(inputs, labels.astype(numpy.float32 if classes == 2 else numpy.int64), place=place)


def make_regression(inputs: numpy.ndarray, targets: numpy.ndarray, *, place: str) -> TensorDataset:  # [n, ...], [n, outputs]
    """Make the data set of a regression."""
    targets = to_float32(targets)
    _check_finite(targets, what="targets", place=place)
    return _make(inputs, targets, place=place)


def _make(inputs: numpy.ndarray, targets: numpy.ndarray, *, place: str) -> TensorDataset:
    import torch
    from torch.utils.data import TensorDataset

    _check_finite(inputs, what="inputs", place=place)
    return TensorDataset(torch.from_numpy(inputs), torch.from_numpy(targets))


def _check_finite(array: numpy.ndarray, *, what: str, place: str) -> None:
    import numpy

    # The sum of finite float32 numbers in float64 is finite, so one pass without a mask settles the usual case.
    with numpy.errstate(invalid="ignore"):
        total = array.sum(dtype=numpy.float64)
    if not numpy.isfinite(total):
        row = int(numpy.flatnonzero(~numpy.isfinite(array.reshape(len(array), -1)).all(axis=1))[0])
        raise UsageError(f"{place}: record {row + 1}: expected finite {what}, got NaN or an infinity. Mend or drop the record.")
