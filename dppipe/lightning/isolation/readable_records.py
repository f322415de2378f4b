"""Validation data of which no record raises: one that can't be read or collated is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced


class Broken:
    """Marks a record that can't be read, or a batch without any record that can."""

    def to(self, *args: Any, **kwargs: Any) -> Broken:
        """Return itself: there is nothing to move."""
        return self


class ReadableRecords(Dataset[Any]):
    """A dataset that returns a `Broken` for a record that can't be read."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        with SuppressRecordErrors(), silenced():
            return self._dataset[index]
        return Broken()

    def first(self) -> Any:
        """Return the first record that can be read, for its shape alone; None if there is none."""
        for index in range(len(self)):
            example = self[index]
            if not isinstance(example, Broken):
                return example
        return None


class ReadableStream(IterableDataset[Any]):
    """A dataset that streams its records, and ends where one can't be read."""

    def __init__(self, dataset: IterableDataset[Any]) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        with SuppressRecordErrors():  # StopIteration, the end of a stream, too
            with silenced():
                records = iter(self._dataset)
            while True:
                with silenced():
                    record = next(records)
                yield record


def readable(dataset: Dataset[Any]) -> ReadableRecords | ReadableStream:
    """Return a dataset that reads the same records, and never raises over one."""
    if isinstance(dataset, IterableDataset):
        return ReadableStream(dataset)
    return ReadableRecords(dataset)


def collate_readable(collate: Callable[[list[Any]], Any], examples: list[Any]) -> Any:
    """Collate the examples that can be read and collated; return a `Broken` if there are none."""
    read = [example for example in examples if not isinstance(example, Broken)]
    batch = _try_to_collate(collate, read)
    if isinstance(batch, Broken):
        alone = [example for example in read if runs_without_error(collate, [example])]
        batch = _try_to_collate(collate, alone)
    return batch


def _try_to_collate(collate: Callable[[list[Any]], Any], examples: list[Any]) -> Any:
    if not examples:
        return Broken()
    with SuppressRecordErrors(), silenced():
        return collate(examples)
    return Broken()


def runs_without_error(function: Callable[..., Any], *args: Any) -> bool:
    """Return whether a call raises no error of a record; what it returns is dropped."""
    with SuppressRecordErrors(), silenced():
        function(*args)
        return True
    return False
