"""Released values on disk: what a run has let out beside its steps.

A value is saved before its learner sees it, so that a run which goes on after an interruption reads
it instead of asking for it again. A release that was charged and whose value is lost stays lost:
the plan holds no second one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.durable import sync
from dppipe.runs.directory import RunDirectory
from dppipe.runs.released_files import OWN_FILES, value_file
from dppipe.runs.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.planning.plan import Plan


class ReleasedValues:
    """The saved values of one run's releases."""

    def __init__(self, run: RunDirectory, plan: Plan) -> None:
        self.run = run
        self.plan = plan

    def load(self, number: int) -> Tensor | None:
        """Return the value of a release; None where it isn't there."""
        path = value_file(self.run, self.plan, number)
        return load_tensors(path)["value"] if path.exists() else None

    def save(self, number: int, value: Tensor) -> None:
        """Save a value durably; what inputs are transformed by is saved by who has asked for it."""
        if self.plan.releases[number].what in OWN_FILES:
            return
        path = value_file(self.run, self.plan, number)
        if not path.parent.exists():
            path.parent.mkdir()
            sync(self.run.path)  # the name of the new directory
        save_tensors({"value": value}, path)
