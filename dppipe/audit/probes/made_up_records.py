"""Made-up records for probes: one unit that can be exchanged, among others that add nothing.

The first unit is the canary's. In one world it holds a canary; in the other it is marked as a bad
record, so that it is drawn like any other and contributes nothing. All other records are
placeholders: a column `present`, which is 0 for them, multiplies each example's loss. Then nothing
but the canary moves the sum, and a test is as sharp as it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import TensorDataset

from dppipe.data.reading.users import with_users
from dppipe.data.reading.validity import with_valid
from dppipe.engine.losses import SingletonLoss
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.engine.contracts import PerSampleLoss

Row = tuple[Tensor, ...]
"""One example: a tensor with a first dimension of 1 for each column."""


@dataclass(frozen=True)
class Columns:
    """The tensors of a batch as columns, and how the batch is put together from them."""

    structure: Any
    inputs: int
    """How many columns, from the first on, are inputs."""

    @classmethod
    def of(cls, batch: Any) -> tuple[Columns, Row]:
        """Return the columns of a batch of made-up examples; refuse one that has others."""
        leaves, structure = tree_flatten(batch)
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or not leaf.dim():
                raise UsageError(
                    "data: expected made-up examples of tensors with rows, for the probes of an "
                    f"audit, got {type(leaf).__name__}. Change synthetic()."
                )
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        return cls(structure, len(tree_flatten(parts[0])[0])), tuple(leaves)

    def batch(self, columns: Sequence[Tensor]) -> Any:
        """Return the batch that the model's loss takes."""
        return tree_unflatten(list(columns), self.structure)

    def masked(self, loss: PerSampleLoss) -> PerSampleLoss:
        """Return a loss of rows with a last column `present`, which multiplies each loss."""
        if isinstance(loss, SingletonLoss):
            step = loss.step

            def masked_step(model: nn.Module, rows: Any) -> Tensor:
                *columns, present = rows
                counted: Tensor = step(model, self.batch(columns)).reshape(()) * present.reshape(())
                return counted

            return SingletonLoss(masked_step)

        def masked_loss(model: nn.Module, rows: Any) -> Tensor:
            *columns, present = rows
            counted: Tensor = loss(model, self.batch(columns)) * present
            return counted

        return masked_loss


class MadeUpRecords:
    """A dataset in memory whose first unit is a canary's place.

    Under `user` that unit has several records, each of which holds the canary.
    """

    def __init__(
        self,
        columns: Row,
        *,
        others: int,
        canary_rows: int = 1,
        by_users: bool = False,
        present: bool = True,
    ) -> None:
        """Make up records.

        Args:
            columns: Made-up examples, one tensor `[n, ...]` for each column.
            others: How many units there are beside the canary's.
            canary_rows: How many records the canary's unit has.
            by_users: Whether each record says whose it is.
            present: Whether there is a column of placeholders; else others are ordinary records.
        """
        rows = canary_rows + others
        repeated = torch.arange(rows) % len(columns[0])
        tensors = [column[repeated].clone() for column in columns]
        self.present = torch.zeros(rows, dtype=torch.float32)
        self.dataset = TensorDataset(*tensors, *([self.present] if present else []))
        self.units = 1 + others
        self.world = 0
        """A number for what the canary's place holds: each change has another."""
        with_valid(self.dataset, numpy.ones(rows, dtype=bool))
        self.valid: numpy.ndarray = self.dataset.valid  # type: ignore[attr-defined]
        self._canary = slice(0, canary_rows)
        if by_users:
            users = numpy.concatenate([numpy.zeros(canary_rows), 1 + numpy.arange(others)])
            with_users(self.dataset, users.astype(numpy.int64))
        self.hold(None)

    def hold(self, canary: Row | None) -> None:
        """Put a canary into its place, or mark the place as bad."""
        self.world = 0 if canary is None else id(canary)
        self.valid[self._canary] = canary is not None
        self.present[self._canary] = 1.0
        if canary is not None:
            for column, value in zip(self.dataset.tensors, canary, strict=False):
                column[self._canary] = value.to(column.dtype)
