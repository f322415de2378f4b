"""Records as tensors: what is attacked, and what shadow models train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

from dppipe.data.base import valid_part
from dppipe.data.reading.record_checks import usable_part
from dppipe.data.reading.users import users_of, with_users
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.utils.data import Dataset

    from dppipe.spec.spec import Spec


@dataclass(frozen=True)
class Records:
    """Records as the data kind loads them: before private statistics and features."""

    inputs: Tensor  # [n, ...]
    targets: Tensor  # [n, ...]
    users: NDArray[numpy.int64] | None = None  # [n]
    """Whose each record is, numbered from 0; None where each is a unit of its own."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def units(self) -> NDArray[numpy.int64]:  # [n]
        """The unit of privacy that each record belongs to: its user, or itself."""
        return numpy.arange(len(self)) if self.users is None else self.users

    def take(self, rows: NDArray[Any]) -> Records:
        """Return the records at these rows, or those of a mask."""
        chosen = torch.from_numpy(numpy.asarray(rows))
        users = None if self.users is None else self.users[rows]
        return Records(self.inputs[chosen], self.targets[chosen], users)

    def together_with(self, other: Records) -> Records:
        """Return these records, then others, of other users."""
        users = None
        if self.users is not None and other.users is not None:
            users = numpy.concatenate([self.users, other.users + self.users.max(initial=-1) + 1])
        inputs = torch.cat([self.inputs, other.inputs])
        return Records(inputs, torch.cat([self.targets, other.targets]), users)

    def one_of_each_unit(self, most: int, *, seed: int) -> NDArray[numpy.int64]:
        """Return rows of at most so many units, one of each, drawn by a public seed."""
        order = numpy.random.default_rng(seed).permutation(len(self))
        first = numpy.unique(self.units[order], return_index=True)[1]
        rows: NDArray[numpy.int64] = numpy.sort(order[numpy.sort(first)[:most]])
        return rows

    def dataset(self) -> Dataset[Any]:
        """Return the records as a dataset, marked with their users."""
        made = TensorDataset(self.inputs, self.targets)
        return made if self.users is None else with_users(made, self.users)


def read_part(part: Dataset[Any] | None, spec: Spec) -> Records | None:
    """Return the usable records of a split; None where it has none."""
    valid = valid_part(part)
    if valid is None:
        return None
    usable = usable_part(valid, spec.data)
    users = users_of(usable) if spec.data.by_users else None
    inputs, targets = _tensors(usable)
    return Records(inputs, targets, users) if len(inputs) else None


def _tensors(dataset: Dataset[Any]) -> tuple[Tensor, Tensor]:
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        return dataset.tensors[0], dataset.tensors[1]
    count: int = len(dataset)  # type: ignore[arg-type]
    try:
        inputs, targets = next(iter(DataLoader(dataset, batch_size=max(1, count))))
        return torch.as_tensor(inputs), torch.as_tensor(targets)
    except (RuntimeError, TypeError, ValueError, StopIteration):
        # Its text could contain a record's value.
        raise UsageError(
            "data: expected records that are pairs of an input and a target, of one shape each, "
            "got others. An attack needs them as two tensors."
        ) from None
