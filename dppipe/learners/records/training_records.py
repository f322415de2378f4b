"""The training records of a learner that owns its loop: units, which can be read inside the gate.

A unit is one record, or all records of one user. Reading is refused outside of a gate's
computation, so nothing can depend on a record that no release was charged for. A record that can't
be read is left out; one that is marked as bad was left out before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dppipe.data.reading.each_record import still_generators
from dppipe.data.reading.users import users_of
from dppipe.data.reading.validity import valid_of
from dppipe.errors import PrivacyRefusal
from dppipe.learners.records.batch_reader import BatchReader, RecordBatch
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.privacy.release import PublicFacts


class Unit(NamedTuple):
    """The records of one unit."""

    inputs: Tensor
    """`[records, ...]`"""
    targets: Tensor
    """`[records, ...]`"""


class TrainingRecords:
    """The training records of a run, unit by unit or in batches.

    Guarantee: records are read only while `may_read` says so. No record raises, and what user code
    prints, warns of or logs while it reads one is dropped. The global generators start from one
    state for each record, so what a dataset draws for one doesn't follow from others.
    """

    def __init__(
        self, dataset: Dataset[Any], *, by_users: bool, may_read: Callable[[], bool]
    ) -> None:
        self._dataset = dataset
        self._by_users = by_users
        self._may_read = may_read

    def units(self) -> Iterator[Unit]:
        """Yield the usable records of each unit; a unit without any is left out."""
        self.refuse_outside()
        for indices in self._indices():
            self.refuse_outside()  # a generator may outlive the computation that made it
            unit = self._read(indices)
            if unit is not None:
                yield unit

    def batches(self, facts: PublicFacts, *, size: int) -> Iterator[RecordBatch]:
        """Yield all records in batches of this many places each; at least one batch.

        Guarantee: a place's numbers are those of its own record. A record that can't be read, has
        another shape, isn't finite or whose target isn't one of the task is not usable.
        """
        reader = self.reader(facts)
        for start in range(0, max(reader.count, 1), size):
            self.refuse_outside()
            yield reader.read(start, size=size)

    def reader(self, facts: PublicFacts) -> BatchReader:
        """Return what reads records by their places; call `refuse_outside` before each read."""
        self.refuse_outside()
        return BatchReader(self._dataset, facts, by_users=self._by_users)

    def refuse_outside(self) -> None:
        """Refuse to go on where records may not be read."""
        if not self._may_read():
            raise PrivacyRefusal(
                "records: expected to be read inside a gate's computation, got a read outside of "
                "it. Hand the gate a function of one unit: gate.sum_units(release, function, ...)."
            )

    def _indices(self) -> Iterator[list[int]]:
        count = len(self._dataset)  # type: ignore[arg-type]
        valid = valid_of(self._dataset)
        users = users_of(self._dataset) if self._by_users else None
        owned: dict[int, list[int]] = {}
        for index in range(count):
            if valid is None or valid[index]:
                owner = index if users is None else int(users[index])
                owned.setdefault(owner, []).append(index)
        yield from owned.values()

    def _read(self, indices: list[int]) -> Unit | None:
        with silenced():
            return self._read_aloud(indices)

    def _read_aloud(self, indices: list[int]) -> Unit | None:
        if isinstance(self._dataset, TensorDataset):
            tensors = self._dataset.tensors
            return Unit(tensors[0][indices], tensors[1][indices])
        rows: list[tuple[Tensor, Tensor]] = []
        with still_generators() as restart:
            for index in indices:
                restart()  # what a record draws doesn't follow from the records before it
                with SuppressRecordErrors():
                    one, target = self._dataset[index][:2]
                    rows.append((torch.as_tensor(one), torch.as_tensor(target)))
        try:
            inputs = torch.stack([one for one, _ in rows])
            return Unit(inputs, torch.stack([target for _, target in rows]))
        except (RuntimeError, ValueError):  # nothing could be read, or records of several shapes
            return None
