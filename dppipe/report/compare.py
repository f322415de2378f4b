"""Runs side by side: how each ended, what it cost and what it reached, with mean and spread over runs of one name.

Everything is read from run directories; nothing of a run is loaded or run again.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dppipe.errors import UsageError


@dataclass(frozen=True)
class FinishedRun:
    """One run, as its files tell it."""

    path: str
    name: str
    status: str
    """How it ended, or `unfinished` where it has no summary yet."""
    steps: int
    epsilon: float | None
    """What is claimed; None where nothing is: the run is not private, has failed, or is unfinished."""
    delta: float | None
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Spread:
    """Several numbers of one kind."""

    mean: float
    deviation: float | None
    """The sample standard deviation; None for a single number."""
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up at least one number."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, min(values), max(values))


@dataclass(frozen=True)
class Comparison:
    """All runs of one name."""

    name: str
    runs: int
    statuses: Mapping[str, int]
    private: bool
    epsilon: Spread | None
    delta: float | None
    metrics: Mapping[str, Spread]
    """Each metric over the runs that have it; what starts with `nonprivate/` was computed without noise."""

    def to_data(self) -> dict[str, Any]:
        """Give plain data, for programs."""
        return asdict(self)


def find_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Read run directories, or all that stand somewhere below a folder such as `runs/digits`."""
    found: dict[Path, FinishedRun] = {}
    for path in paths:
        try:
            plans = (
                [path / "plan.json"]
                if (path / "plan.json").is_file()
                else sorted(path.rglob("plan.json"))
            )
        except OSError:
            plans = []
        if not plans:
            raise UsageError(
                f"{path}: expected a run directory, or a folder of them, got none with a plan.json."
            )
        found |= {plan.parent.resolve(): _read(plan.parent) for plan in plans}
    return list(found.values())


def compare_runs(runs: Sequence[FinishedRun]) -> list[Comparison]:
    """Put runs of one name together, in the order in which the names come."""
    return [
        _compare(name, [run for run in runs if run.name == name])
        for name in dict.fromkeys(run.name for run in runs)
    ]


def _compare(name: str, runs: Sequence[FinishedRun]) -> Comparison:
    statuses = [run.status for run in runs]
    epsilons = [run.epsilon for run in runs if run.epsilon is not None]
    deltas = [run.delta for run in runs if run.delta is not None]
    return Comparison(
        name=name,
        runs=len(runs),
        statuses={status: statuses.count(status) for status in dict.fromkeys(statuses)},
        private=len(deltas) == len(runs),
        epsilon=Spread.of(epsilons) if epsilons else None,
        delta=max(deltas, default=None),
        metrics=dict(_metrics(runs)),
    )


def _metrics(runs: Sequence[FinishedRun]) -> Iterator[tuple[str, Spread]]:
    for name in dict.fromkeys(name for run in runs for name in run.metrics):
        yield name, Spread.of([run.metrics[name] for run in runs if name in run.metrics])


def _read(path: Path) -> FinishedRun:
    plan, summary = _json(path / "plan.json"), _json(path / "summary.json")
    try:
        return TypeAdapter(FinishedRun).validate_python(
            {
                "path": str(path),
                "name": plan.get("name", path.name),
                "status": summary.get("status", "unfinished"),
                "steps": summary.get("steps", 0),
                "epsilon": summary.get("epsilon") if summary.get("status") != "failed" else None,
                "delta": plan.get("delta"),
                "metrics": {
                    name: value for name, value in _scores(summary).items() if value is not None
                },
            }
        )
    except (ValidationError, TypeError):
        raise UsageError(
            f"{path / 'summary.json'}: expected what a run has written, got other types."
        ) from None


def _scores(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {**summary.get("metrics", {}), **summary.get("test", {})}


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path}: expected JSON that can be read, got {type(error).__name__}."
        ) from error
    return data if isinstance(data, dict) else {}
