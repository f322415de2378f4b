"""Reading drawn records: one at a time, so that none depends on another, and never with an error.

A record that can't be read, collated or that lies outside its declared ranges is left out: it
contributes nothing. The others are stacked by a rule of ours: rows of one structure, shape and type
form one batch, so nobody pads a row to the length of another. A user's `collate` sees one example.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate

from dppipe.engine.losses import batch_rows, join_rows
from dppipe.errors import RECORD_ERRORS
from dppipe.learners.records.faults import is_machine_fault

Indices = NDArray[numpy.int64]
Collate = Callable[[list[Any]], Any]
Placed = tuple[int, Any]
"""A row, and its place among those that were drawn."""


@dataclass(frozen=True)
class PhysicalBatch:
    """Records that go through the model at once."""

    parts: list[Any]
    """Batches of rows of one shape each; most often there is one."""
    units: Indices | None = None
    """`[rows]`: the unit of each row of all parts, in their order; None where rows are units."""
    broken: int = 0
    """How many records could not be read."""


@dataclass(frozen=True)
class RecordReader:
    """Reads the records of a map-style data set.

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
            parts = [[tensor[chosen] for tensor in tensors]] if len(indices) else []
            return PhysicalBatch(parts, units, drawn - len(indices))
        parts, places = self._stacked(list(self._rows(indices)))
        units = units[places] if units is not None else None
        return PhysicalBatch(parts, units, drawn - len(places))

    def one(self, index: int) -> Any:
        """Return one record as a batch of its own; whatever is wrong with it is raised."""
        return self._stack([self._row(index)])

    def kind(self, index: int) -> Hashable:
        """Return what a record has in common with those it can be stacked with; it must be readable."""
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
            try:
                yield place, self._row(index)
            except RECORD_ERRORS as error:
                if is_machine_fault(error):
                    raise

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
        """Yield rows of one kind as one batch; where that raises, each row that can be stacked alone."""
        try:
            yield self._stack([row for _, row in group]), group
            return
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise
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
        (batch,) = [rows[0]] if len(rows) == 1 else join_rows(rows)
        return batch


def alike(rows: list[Any]) -> bool:
    """Return whether rows are tuples or dictionaries of tensors and numbers of one kind, which is quick to tell."""
    first = rows[0]
    kinds = set(map(type, rows))
    if len(kinds) > 1:
        return False
    if isinstance(first, dict):
        names = first.keys()
        if any(row.keys() != names for row in rows):
            return False
        return all(_leaves_alike([row[name] for row in rows]) for name in names)
    if isinstance(first, (tuple, list)):
        if any(len(row) != len(first) for row in rows):
            return False
        return all(map(_leaves_alike, zip(*rows, strict=True)))
    return False


def _leaves_alike(leaves: Sequence[Any]) -> bool:
    kinds = set(map(type, leaves))
    if kinds == {Tensor}:
        return len({(leaf.shape, leaf.dtype) for leaf in leaves}) == 1
    return len(kinds) == 1 and kinds <= {int, float, bool}


def row_kind(row: Any, *, collated: bool) -> Hashable:
    """Return what rows have in common that can be stacked; a row like no other is alone."""
    if isinstance(row, Tensor):
        if collated and (not row.dim() or row.shape[0] != 1):
            return object()
        return tuple(row.shape), row.dtype
    if collated and not isinstance(row, (Mapping, tuple, list)):
        return object()
    if isinstance(row, (numpy.ndarray, numpy.generic)):
        return "array", row.shape, row.dtype.str
    if isinstance(row, (bool, int, float)):
        return type(row).__name__
    if isinstance(row, Mapping):
        named = ((str(name), row_kind(value, collated=collated)) for name, value in row.items())
        return type(row), tuple(named)
    if isinstance(row, (tuple, list)):
        return type(row), tuple(row_kind(value, collated=collated) for value in row)
    return object()


def check_ranges(row: Any, ranges: Any) -> None:
    """Raise a ValueError where an integer lies outside its range: a device couldn't recover."""
    if isinstance(ranges, range):
        values = torch.as_tensor(row)
        if values.numel() and not (
            ranges.start <= int(values.min()) and int(values.max()) < ranges.stop
        ):
            raise ValueError("a record outside its declared range")
    elif isinstance(ranges, Mapping):
        for name, inner in ranges.items():
            check_ranges(row[name], inner)
    elif isinstance(ranges, (tuple, list)):
        for value, inner in zip(row, ranges, strict=True):
            check_ranges(value, inner)


def tensors_in_range(dataset: TensorDataset, ranges: Any) -> NDArray[numpy.bool_]:  # [records]
    """Return which records of a data set in memory lie in their declared ranges."""
    inside = torch.ones(len(dataset), dtype=torch.bool)
    for tensor, limits in zip(dataset.tensors, ranges, strict=True):
        if isinstance(limits, range):
            rows = tensor.flatten(1) if tensor.dim() > 1 else tensor[:, None]
            inside &= ((rows >= limits.start) & (rows < limits.stop)).all(1)
    return inside.numpy()
