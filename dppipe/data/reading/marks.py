"""Marks of a dataset on its records: whose each record is, and whether it can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

MARKS = ("users", "valid")
"""The attributes that hold one entry for each record."""


def copy_marks(dataset: Any, part: Any, rows: numpy.ndarray) -> Any:
    """Copy the marks of a part's rows from the dataset to the part, and return the part."""
    for name in MARKS:
        marks = getattr(dataset, name, None)
        if _is_column(marks, len(dataset)):
            setattr(part, name, _entries(marks, rows))
    return part


def _is_column(marks: Any, records: int) -> bool:
    """Return whether this has an entry for each record.

    A user's own class may use the name for something else.
    """
    if isinstance(marks, str | bytes):
        return False
    if hasattr(marks, "shape"):
        return tuple(marks.shape[:1]) == (records,)
    return isinstance(marks, Sequence) and len(marks) == records


def _entries(marks: Any, rows: numpy.ndarray) -> Any:
    import torch

    if isinstance(marks, torch.Tensor):
        return marks[torch.from_numpy(rows)]
    if hasattr(marks, "shape"):
        return marks[rows]
    return [marks[int(row)] for row in rows]
