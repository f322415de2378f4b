"""Reading all training records in batches, each record at a place of its own.

Every batch has the same number of places. A record that can't be used leaves zeros at its place, so
what is computed of one record never depends on whether another one could be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from dppipe.data.reading.each_record import still_generators
from dppipe.data.reading.users import users_of
from dppipe.data.reading.validity import valid_of
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.privacy.release import PublicFacts


class RecordBatch(NamedTuple):
    """Places with the numbers of one record each."""

    inputs: Tensor
    """`[size, *input_shape]` float64; zeros where a place isn't usable."""
    targets: Tensor
    """`[size]` int64 class numbers, or `[size, outputs]` float64 of a regression."""
    usable: Tensor
    """`[size]` bool."""
    owners: Tensor
    """`[size]` int64: the number of each record's unit."""


class BatchReader:
    """Reads the records of a dataset, a range of places at a time."""

    def __init__(self, dataset: Dataset[Any], facts: PublicFacts, *, by_users: bool) -> None:
        self.dataset = dataset
        self._facts = facts
        self.count = len(dataset)  # type: ignore[arg-type]
        valid = valid_of(dataset)
        self._valid = None if valid is None else torch.from_numpy(valid)
        users = users_of(dataset) if by_users else None
        self._owners = torch.arange(self.count) if users is None else torch.from_numpy(users)

    def read(self, start: int, *, size: int) -> RecordBatch:
        """Read the records from `start` on, as many as there are places."""
        stop = min(start + size, self.count)
        return self.read_at(torch.arange(start, stop), size=size)

    def read_at(self, indices: Tensor, *, size: int) -> RecordBatch:  # indices: [at most size]
        """Read the records at these indices, in this order."""
        read = len(indices)
        inputs = torch.zeros(size, *self._facts.input_shape, dtype=torch.float64)
        targets = torch.zeros(size, self._target_width, dtype=torch.float64)
        usable = torch.zeros(size, dtype=torch.bool)
        owners = torch.zeros(size, dtype=torch.int64)
        owners[:read] = self._owners[indices]
        if read and type(self.dataset) is TensorDataset:
            self._copy_tensors(indices, inputs, targets, usable)
        else:
            self._copy_records(indices, inputs, targets, usable)
        if self._valid is not None:
            usable[:read] &= self._valid[indices]
        usable &= inputs.flatten(1).isfinite().all(1) & self._are_targets(targets)
        shape = (size, *(1,) * len(self._facts.input_shape))
        inputs = torch.where(usable.view(shape), inputs, 0.0)
        targets = torch.where(usable[:, None], targets, 0.0)
        if self._facts.task != "regression":
            targets = targets[:, 0].to(torch.int64)
        return RecordBatch(inputs, targets, usable, owners)

    @property
    def _target_width(self) -> int:
        return self._facts.outputs if self._facts.task == "regression" else 1

    def _are_targets(self, targets: Tensor) -> Tensor:  # [size, width] -> [size]
        """Return which targets the task has: finite numbers, or one of its classes."""
        if self._facts.task == "regression":
            return targets.isfinite().all(1)
        classes = 2 if self._facts.task == "binary" else self._facts.outputs
        is_class = (targets >= 0) & (targets < classes) & (targets == targets.floor())
        return is_class.all(1)

    def _copy_tensors(
        self, indices: Tensor, inputs: Tensor, targets: Tensor, usable: Tensor
    ) -> None:
        read = len(indices)
        found, wanted = (tensor[indices] for tensor in self.dataset.tensors[:2])  # type: ignore[attr-defined]
        wanted = wanted.reshape(read, -1)
        if found.shape[1:] != inputs.shape[1:] or wanted.shape[1] != targets.shape[1]:
            return
        inputs[:read] = found
        targets[:read] = wanted
        usable[:read] = True

    def _copy_records(
        self, indices: Tensor, inputs: Tensor, targets: Tensor, usable: Tensor
    ) -> None:
        with silenced(), still_generators() as restart:
            for place, index in enumerate(indices.tolist()):
                restart()
                with SuppressRecordErrors():
                    found, wanted = self.dataset[index][:2]
                    found = torch.as_tensor(found)
                    wanted = torch.as_tensor(wanted).reshape(-1)
                    if found.shape == inputs.shape[1:] and wanted.shape == targets.shape[1:]:
                        inputs[place] = found
                        targets[place] = wanted
                        usable[place] = True
