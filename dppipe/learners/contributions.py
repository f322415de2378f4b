"""The contributions of a physical batch: a record that can't be evaluated contributes nothing.

The whole batch is evaluated at once. Where that raises, each record is evaluated alone, so that one
record never removes another. From the first charge on no record, however broken, ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor

from dppipe.engine.losses import batch_rows, join_rows, take_rows
from dppipe.errors import RECORD_ERRORS
from dppipe.learners.records.faults import is_machine_fault
from dppipe.learners.records.reading import Indices, PhysicalBatch

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.engine.contracts import Factors


@dataclass(frozen=True)
class Contributed:
    """What a physical batch has added: neither value is private."""

    norms: Tensor
    """`[rows, G]`: the norms of the rows that were evaluated."""
    units: Indices | None
    """`[rows]`: their units."""
    broken: int
    """How many records could not be read or evaluated."""


@dataclass(frozen=True)
class Contributions:
    """Adds the clipped gradients of a step's records.

    Guarantee: every record, or unit, adds at most its bound, whatever it makes the model do; no
    error of a record leaves this object. Only the machine's own faults do.
    """

    engine: Engine
    place: Callable[[Any], Any]
    """Moves a batch to the training device."""
    into: Mapping[str, Tensor]
    bounds: Tensor
    clipper: Factors

    def add(self, batch: PhysicalBatch) -> Contributed:
        """Add a physical batch's contributions."""
        if batch.units is not None:
            return self._add_whole(batch)
        # Each part on its own: what one has added must not be added again where another raises.
        added = [self._add_whole(PhysicalBatch([part])) for part in batch.parts]
        norms = torch.cat([self._none(), *(each.norms for each in added)])
        return Contributed(norms, None, batch.broken + sum(each.broken for each in added))

    def _add_whole(self, batch: PhysicalBatch) -> Contributed:
        if not batch.parts:
            return Contributed(self._none(), batch.units, batch.broken)
        try:
            norms = self._accumulate(batch.parts, batch.units)
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise  # some of it may have been added
            return self._one_by_one(batch)
        return Contributed(norms, batch.units, batch.broken)

    def _none(self) -> Tensor:
        return self.bounds.new_zeros(0, len(self.bounds))

    def _accumulate(self, parts: list[Any], units: Indices | None) -> Tensor:
        placed = [self.place(part) for part in parts]
        return self.engine.accumulate_parts(
            placed, self.into, bounds=self.bounds, units=units, clipper=self.clipper
        )

    def _one_by_one(self, batch: PhysicalBatch) -> Contributed:
        norms = [self._none()]
        kept: list[int] = []
        total = 0
        for rows, unit in _units(batch):
            total += len(rows)
            ids, whole = None, rows
            if batch.units is not None:
                whole = [row for row in rows if self._evaluates(row)]
                ids = numpy.full(len(whole), unit)
            try:
                if whole:
                    norms.append(self._accumulate(join_rows(whole), ids))
                    kept += [unit] * len(whole)
            except RECORD_ERRORS as error:
                if is_machine_fault(error):
                    raise
        units = numpy.asarray(kept, dtype=numpy.int64) if batch.units is not None else None
        return Contributed(torch.cat(norms), units, batch.broken + total - len(kept))

    def _evaluates(self, row: Any) -> bool:
        """Return whether a record can be evaluated alone; its gradients are thrown away."""
        try:
            self.engine.gradients_of([self.place(row)])
        except RECORD_ERRORS as error:
            if is_machine_fault(error):
                raise
            return False
        return True


def _units(batch: PhysicalBatch) -> Iterator[tuple[list[Any], int]]:
    """Yield the rows of each unit as batches of one, with the unit's id; a row may be a unit."""
    rows = [row for part in batch.parts for row in _rows(part)]
    if batch.units is None:
        yield from (([row], place) for place, row in enumerate(rows))
        return
    for unit in dict.fromkeys(batch.units.tolist()):
        yield [row for row, owner in zip(rows, batch.units, strict=True) if owner == unit], unit


def _rows(part: Any) -> list[Any]:
    try:
        count = batch_rows(part)
    except ValueError:  # a record whose tensors have no common first dimension stands alone
        return [part]
    return [take_rows(part, place, place + 1) for place in range(count)]
