"""Released values on disk: what a run has let out beside its steps.

A value is saved before its learner sees it, so that a run which goes on after an interruption reads
it instead of asking for it again. A release that was charged and whose value is lost stays lost:
the plan holds no second one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.runs.directory import RunDirectory
from dppipe.runs.tensors import load_tensors, save_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.planning.plan import Plan


def value_file(run: RunDirectory, plan: Plan, number: int) -> Path:
    """Return where the value of a release that isn't a step is saved; numbers start from 0."""
    if plan.releases[number].what == "statistics":
        return run.statistics
    return run.path / "released" / f"{number + 1:04d}.pt"


def count_released(run: RunDirectory, plan: Plan) -> int:
    """Return how many releases that aren't steps have their value on disk."""
    count = 0
    while count < len(plan.releases) and value_file(run, plan, count).exists():
        count += 1
    return count


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
        """Save a value durably."""
        path = value_file(self.run, self.plan, number)
        path.parent.mkdir(exist_ok=True)
        save_tensors({"value": value}, path)
