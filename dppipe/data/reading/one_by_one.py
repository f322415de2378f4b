"""Datasets whose records are read when they are drawn, and stay on disk otherwise.

A record that can't be used raises an error, so that it contributes nothing. Read next:
`learners/records/reading.py`, who reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from torch import Tensor

    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.scaling import Constants


class RecordsOnDisk(ABC):
    """A map-style dataset of records on disk; of all of them, or of those at some places.

    Guarantee: an item is a function of its record alone.
    """

    def __init__(
        self, count: int, scaling: tuple[Constants | Limits, ...], *, classes: int | None
    ) -> None:
        self._count = count
        self._scaling = scaling
        self._classes = classes
        self._rows: NDArray[numpy.int64] | None = None

    @abstractmethod
    def raw(self, place: int) -> tuple[Any, Any]:
        """Read the raw input and the target at a place of the whole dataset."""

    def select(self, rows: NDArray[numpy.int64]) -> RecordsOnDisk:
        """Return the dataset of the records at these indices; nothing is read."""
        import copy

        part = copy.copy(self)
        part.__dict__.pop("valid", None)
        part._rows = rows if self._rows is None else self._rows[rows]
        part._count = len(rows)
        return part

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < self._count:
            raise IndexError("expected an index within the data")
        place = index if self._rows is None else int(self._rows[index])
        found, wanted = self.raw(place)
        inputs = as_input(found, self._scaling)
        if not inputs.isfinite().all():
            raise ValueError("expected a finite input, got NaN or an infinity")
        return inputs, self._target(wanted)

    def _target(self, wanted: Any) -> Tensor:
        import numpy
        import torch

        if self._classes is None:
            with numpy.errstate(over="ignore"):
                target = torch.from_numpy(numpy.array(wanted, dtype=numpy.float32).reshape(-1))
            if not target.isfinite().all():
                raise ValueError("expected a finite target, got NaN or an infinity")
            return target
        label = int(wanted)
        if not 0 <= label < self._classes:
            raise ValueError("expected a label of one of the classes, got another")
        return torch.tensor(float(label)) if self._classes == 2 else torch.tensor(label)


def as_input(found: Any, scaling: tuple[Constants | Limits, ...]) -> Tensor:
    """Return an input as 32-bit floats, scaled by public constants."""
    import numpy
    import torch

    with numpy.errstate(over="ignore"):
        inputs = torch.from_numpy(numpy.array(found, dtype=numpy.float32))[None]
    for transform in scaling:
        inputs = transform.transformed(inputs)
    return inputs[0]
