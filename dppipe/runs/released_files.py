"""Where released values are saved; found without torch. Read next: `released.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.runs.directory import RunDirectory

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan


OWN_FILES = ("projection", "statistics")
"""Releases of which a file of their own is saved: what inputs are transformed by, not the noisy
value that it was computed from."""


def value_file(run: RunDirectory, plan: Plan, number: int) -> Path:
    """Return where the value of a release that isn't a step is saved; numbers start from 0."""
    if isinstance(plan, TunePlan) and number == len(plan.releases) - 1:
        return run.path / "tune.json"
    what = plan.releases[number].what
    own = {"projection": run.projection, "statistics": run.statistics}
    return own.get(what) or run.path / "released" / f"{number + 1:04d}.pt"


def count_released(run: RunDirectory, plan: Plan) -> int:
    """Return how many releases that aren't steps have their value on disk."""
    count = 0
    while count < len(plan.releases) and value_file(run, plan, count).exists():
        count += 1
    return count
