"""Reading drawn records: one at a time, so that none depends on another, and never with an error.

A record that can't be read or collated, or that lies outside its declared ranges, contributes
nothing. The others are stacked by dppipe: rows of one structure, shape and type form one batch, so
no row is padded to the length of another. A user's `collate` sees one example at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate

from dppipe.data.reading.validity import valid_of
from dppipe.engine.losses import batch_rows, join_rows
from dppipe.errors import RECORD_ERRORS
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.ranges import check_ranges, tensors_in_range
from dppipe.learners.records.row_kinds import alike, row_kind

Indices = NDArray[numpy.int64]
Collate = Callable[[list[Any]], Any]
Placed = tuple[int, Any]
"""A row, and its place among those that were drawn."""


@dataclass(frozen=True)
class PhysicalBatch:
    """Records that go through the model at once."""

    parts: list[Any]
    """Batches of rows of one shape each; usually there is one."""
    units: Indices | None = None
    """`[rows]`: the unit of each row of all parts, in their order; None where rows are units."""
    broken: int = 0
    """How many records couldn't be read."""


@dataclass(frozen=True)
class RecordReader:
    """Reads the records of a map-style dataset.

    Guarantee: each row of a batch is a function of its own record alone, and no record raises.
    """

    dataset: Dataset[Any]
    collate: Collate | None = None
    ranges: Any = None
    """In the structure of an example, a `range` for each integer that has one."""
    valid: NDArray[numpy.bool_] | None = field(default=None)
    """`[records]`: False for records that contribute nothing; None where all do."""

    @property
    def in_memory(self) -> bool:
        """Whether records are rows of tensors."""
        return type(self.dataset) is TensorDataset and self.collate is None

    def read(self, indices: Indices, units: Indices | None = None) -> PhysicalBatch:
        """Read the records at these indices, with the unit of each where there are units."""
        drawn = len(indices)
        if self.valid is not None:
            kept = self.valid[indices]
            indices = indices[kept]
            units = units[kept] if units is not None else None
        if self.in_memory:
            tensors: tuple[Tensor, ...] = self.dataset.tensors  # type: ignore[attr-defined]
            chosen = torch.from_numpy(indices)
            parts = [[tensor.index_select(0, chosen) for tensor in tensors]] if len(indices) else []
            return PhysicalBatch(parts, units, drawn - len(indices))
        parts, places = self._stacked(list(self._rows(indices)))
        units = units[places] if units is not None else None
        return PhysicalBatch(parts, units, drawn - len(places))

    def one(self, index: int) -> Any:
        """Return one record as a batch of its own; whatever is wrong with it is raised."""
        return self._stack([self._row(index)])

    def kind(self, index: int) -> Hashable:
        """Return the kind of a readable record: records of one kind can be stacked."""
        row = self._row(index)
        self._stack([row])
        return row_kind(row, collated=self.collate is not None)

    def stack_examples(self, examples: Sequence[Any]) -> Any:
        """Return examples as one batch; whatever is wrong with them is raised."""
        if self.collate is None:
            return default_collate(list(examples))
        (batch,) = join_rows([self.collate([example]) for example in examples])
        return batch

    def _rows(self, indices: Indices) -> Iterator[tuple[int, Any]]:
        """Yield each readable record with its place among the indices."""
        for place, index in enumerate(indices.tolist()):
            with SuppressRecordErrors():
                yield place, self._row(index)

    def _row(self, index: int) -> Any:
        example = self.dataset[index]
        row = example if self.collate is None else self.collate([example])
        if self.collate is not None and batch_rows(row) != 1:
            raise ValueError("collate: expected one row for one record, got another number of rows")
        if self.ranges is not None:
            check_ranges(row, self.ranges)
        return row

    def _stacked(self, rows: list[Placed]) -> tuple[list[Any], Indices]:
        """Stack rows of one kind; return the batches, and the places of their rows in order."""
        parts: list[Any] = []
        places: list[int] = []
        for group in self._grouped(rows):
            for batch, members in self._stack_group(group):
                parts.append(batch)
                places += [place for place, _ in members]
        return parts, numpy.asarray(places, dtype=numpy.int64)

    def _stack_group(self, group: list[Placed]) -> Iterator[tuple[Any, list[Placed]]]:
        """Yield rows of one kind as one batch; if that raises, each row that can be stacked."""
        with SuppressRecordErrors():
            yield self._stack([row for _, row in group]), group
            return
        for member in group:
            if len(group) > 1:
                yield from self._stack_group([member])

    def _grouped(self, rows: list[Placed]) -> list[list[Placed]]:
        try:
            if len(rows) > 1 and self.collate is None and alike([row for _, row in rows]):
                return [rows]
        except RECORD_ERRORS:
            pass  # looked at one by one below
        groups: dict[Hashable, list[Placed]] = {}
        for place, row in rows:
            try:
                kind = row_kind(row, collated=self.collate is not None)
            except RECORD_ERRORS:
                continue  # a record that can't be looked into contributes nothing
            groups.setdefault(kind, []).append((place, row))
        return list(groups.values())

    def _stack(self, rows: Sequence[Any]) -> Any:
        if self.collate is None:
            return default_collate(list(rows))
        if len(rows) == 1:
            return rows[0]
        (batch,) = join_rows(rows)
        return batch


def make_reader(dataset: Dataset[Any], *, collate: Collate | None, ranges: Any) -> RecordReader:
    """Return the reader of a dataset; records in memory are checked once, here."""
    valid = valid_of(dataset)
    if isinstance(dataset, TensorDataset) and collate is None and ranges is not None:
        inside = tensors_in_range(dataset, ranges)
        valid = inside if valid is None else inside & valid
    return RecordReader(dataset, collate, ranges, valid)
