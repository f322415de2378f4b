"""Which records can be used: a dataset marks a bad record, which then contributes nothing.

The record keeps its place. The marks are an attribute `valid`, a bool for each record; without one
all records are valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch.utils.data import Dataset


def with_valid(dataset: Any, valid: Any) -> Any:  # valid: [records]
    """Mark on a dataset which of its records can be used."""
    import numpy

    dataset.valid = numpy.asarray(valid, dtype=bool)
    return dataset


def valid_of(dataset: Dataset[Any]) -> NDArray[numpy.bool_] | None:  # -> [records]
    """Return whether each record can be used; None where a dataset has no marks: all can."""
    import numpy
    import torch

    valid = getattr(dataset, "valid", None)
    marks = numpy.asarray(valid) if isinstance(valid, numpy.ndarray | torch.Tensor) else None
    if marks is None or marks.dtype != numpy.bool_:
        return None  # not a mark: a user's own class may use the name for something else
    if marks.shape != (len(dataset),):  # type: ignore[arg-type]
        raise UsageError("data: expected a bool for each record in `valid`, got something else.")
    return marks
