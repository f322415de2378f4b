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
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.reading import Indices, PhysicalBatch

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.engine.contracts import Factors


@dataclass(frozen=True)
class Contributed:
    """What is known of a physical batch whose gradients were added; none of it is private."""

    norms: Tensor
    """`[rows, G]`: the norms of the rows that were evaluated."""
    units: Indices | None
    """`[rows]`: their units."""
    broken: int
    """How many records couldn't be read or evaluated."""


@dataclass(frozen=True)
class Contributions:
    """Adds the clipped gradients of a step's records.

    Guarantees:
    - Every record, or unit, adds at most its bound, whatever it makes the model do.
    - No error of a record leaves this object; only faults of the machine do.
    """

    engine: Engine
    place: Callable[[Any], Any]
    """Moves a batch to the training device."""
    into: Mapping[str, Tensor]
    """The sum of each parameter's gradients."""
    bounds: Tensor
    clipper: Factors

    def add(self, batch: PhysicalBatch) -> Contributed:
        """Add a physical batch's contributions."""
        if batch.units is not None:
            return self._add_whole(batch)
        norms = [self._no_norms()]
        broken = batch.broken
        # Each part on its own: what one has added must not be added again where another raises.
        for part in batch.parts:
            added = self._add_whole(PhysicalBatch([part]))
            norms.append(added.norms)
            broken += added.broken
        return Contributed(torch.cat(norms), None, broken)

    def _add_whole(self, batch: PhysicalBatch) -> Contributed:
        if not batch.parts:
            return Contributed(self._no_norms(), batch.units, batch.broken)
        with SuppressRecordErrors():  # not if some of it may have been added
            norms = self._accumulate(batch.parts, batch.units)
            return Contributed(norms, batch.units, batch.broken)
        return self._one_by_one(batch)

    def _no_norms(self) -> Tensor:
        return self.bounds.new_zeros(0, len(self.bounds))

    def _accumulate(self, parts: list[Any], units: Indices | None) -> Tensor:
        placed = [self.place(part) for part in parts]
        return self.engine.accumulate_parts(
            placed, self.into, bounds=self.bounds, units=units, clipper=self.clipper
        )

    def _one_by_one(self, batch: PhysicalBatch) -> Contributed:
        grouped = batch.units is not None
        norms = [self._no_norms()]
        kept: list[int] = []
        total = 0
        for rows, unit in _rows_of_units(batch):
            total += len(rows)
            usable = [row for row in rows if self._evaluates(row)] if grouped else rows
            ids = numpy.full(len(usable), unit) if grouped else None
            with SuppressRecordErrors():
                if usable:
                    norms.append(self._accumulate(join_rows(usable), ids))
                    kept += [unit] * len(usable)
        units = numpy.asarray(kept, dtype=numpy.int64) if grouped else None
        return Contributed(torch.cat(norms), units, batch.broken + total - len(kept))

    def _evaluates(self, row: Any) -> bool:
        """Return whether a record can be evaluated alone; its gradients are thrown away."""
        with SuppressRecordErrors():
            self.engine.gradients_of([self.place(row)])
            return True
        return False


def _rows_of_units(batch: PhysicalBatch) -> Iterator[tuple[list[Any], int]]:
    """Yield the rows of each unit as batches of one, with the unit's id; a row may be a unit."""
    rows: list[Any] = []
    for part in batch.parts:
        rows += _rows(part)
    owners = batch.units.tolist() if batch.units is not None else range(len(rows))
    of_unit: dict[int, list[Any]] = {}
    for row, owner in zip(rows, owners, strict=True):
        of_unit.setdefault(owner, []).append(row)
    for unit, own in of_unit.items():
        yield own, unit


def _rows(part: Any) -> list[Any]:
    try:
        count = batch_rows(part)
    except ValueError:  # a record whose tensors have no common first dimension
        return [part]
    return [take_rows(part, place, place + 1) for place in range(count)]
