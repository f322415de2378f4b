"""One input canary that is in every batch it is drawn for, or never: a world of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from dppipe.learners.records.reading import PhysicalBatch

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.records.reading import Indices
    from dppipe.learners.sgd.canaries import WatchedStep
    from dppipe.planning.step_plan import StepPlan


class SingleCanary:
    """A made-up record that is there in one world, and a placeholder in the other."""

    number = 1
    coordinates = 0

    def __init__(
        self, batch: tuple[Tensor, Tensor], *, present: bool, by_users: bool = False
    ) -> None:
        """Take a batch of one row; `by_users`: it is a user of its own."""
        self._batch = batch
        self._present = present
        self._by_users = by_users

    def begin(self, run: Path, plan: StepPlan) -> None:
        """Do nothing: the experiment knows its worlds."""

    def add_(self, coordinates: Tensor, drawn: Indices, *, bound: float) -> None:
        """Do nothing: the canary is a row."""

    def rows(self, drawn: Indices) -> PhysicalBatch | None:
        """Return the canary's row, if it was drawn and is there."""
        if not self._present or not len(drawn):
            return None
        units = numpy.zeros(1, numpy.int64) if self._by_users else None
        return PhysicalBatch([list(self._batch)], units)

    def watch(self, seen: WatchedStep) -> None:
        """Do nothing: the attacker sees the final model alone."""

    def end(self) -> None:
        """Do nothing."""
