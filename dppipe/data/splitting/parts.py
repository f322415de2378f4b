"""The parts of a dataset: the shares that a spec states, and the datasets made by them."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

from pydantic import model_validator

from dppipe.component import Field, Options

if TYPE_CHECKING:
    import numpy
    from torch import Tensor
    from torch.utils.data import Dataset

SplitBy = Literal["position", "hash"]
"""What decides a record's part: its position, or a hash of its content.

Where users are the unit, it is a hash of the user's id.
"""


_MOVED_AT_ONCE = 1 << 18
"""How many rows are moved at once."""


class Split(Options):
    """Shares of the records; the split is drawn from the public `seed`."""

    train: float = Field(0.8, gt=0, le=1, description="The share that is trained on.")
    val: float = Field(0.1, ge=0, lt=1, description="The share that validates.")
    test: float = Field(
        0.1, ge=0, lt=1, description="The share that `dppipe evaluate` scores, once."
    )

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.train + self.val + self.test > 1 + 1e-9:
            raise ValueError(
                "expected shares that sum to at most 1, "
                f"got {self.train + self.val + self.test:g}. Lower one."
            )
        return self

    def counts(self, records: int) -> tuple[int, int, int]:
        """Return the number of training, validation and test records."""
        val = int(self.val * records)
        test = int(self.test * records)
        train = min(round(self.train * records), records - val - test)
        return train, val, test


def refuse_test_share(split: Split, *, beside: str) -> None:
    """Refuse a share of test records where an option names test records of their own."""
    if split.test > 0:
        share = f"split: {{train: {1 - split.val:g}, val: {split.val:g}, test: 0}}"
        raise ValueError(
            f"expected split.test to be 0 beside {beside}, got {split.test:g}. Set {share}."
        )


class Splits(NamedTuple):
    """The datasets of a run; each item is a pair of input and target."""

    train: Dataset[Any]
    val: Dataset[Any] | None
    test: Dataset[Any] | None


def take(dataset: Dataset[Any], indices: numpy.ndarray, *, last: bool = False) -> Dataset[Any]:
    """Return the records at these indices, in the order of the data, with their marks.

    A `TensorDataset` stays one. If this is the last part that is taken of a table that was just
    read, its memory is used again: a large table wouldn't fit twice.
    """
    import numpy
    import torch
    from torch.utils.data import Subset, TensorDataset

    from dppipe.data.reading.marks import copy_marks

    ordered = numpy.sort(indices)
    if len(ordered) == len(cast(Sized, dataset)):
        return dataset
    part: Dataset[Any]
    if last and getattr(dataset, "is_fresh", False) and isinstance(dataset, TensorDataset):
        part = TensorDataset(*(moved_to_front(tensor, ordered) for tensor in dataset.tensors))
    elif isinstance(dataset, TensorDataset):
        part = TensorDataset(*(tensor[torch.from_numpy(ordered)] for tensor in dataset.tensors))
    else:
        part = Subset(dataset, ordered.tolist())
    return cast("Dataset[Any]", copy_marks(dataset, part, ordered))


def moved_to_front(tensor: Tensor, rows: numpy.ndarray) -> Tensor:
    """Move rows, in ascending order, to the front of a tensor in place, and return them."""
    import torch

    places = torch.from_numpy(rows)
    for start in range(0, len(rows), _MOVED_AT_ONCE):
        # Rows only move forwards, so what is read here hasn't been overwritten yet.
        chosen = places[start : start + _MOVED_AT_ONCE]
        tensor[start : start + len(chosen)] = tensor[chosen]
    return tensor[: len(rows)]


def valid_part(dataset: Dataset[Any] | None) -> Dataset[Any] | None:
    """Return a dataset without the records that it marks as invalid."""
    import numpy

    from dppipe.data.reading.validity import valid_of

    if dataset is None:
        return None
    valid = valid_of(dataset)
    return dataset if valid is None else take(dataset, numpy.flatnonzero(valid))
