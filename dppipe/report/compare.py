"""Runs side by side: how each ended, what it cost and its metrics, with mean and spread by name.

Everything is read from run directories; nothing of a run is loaded or run again.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dppipe.errors import UsageError
from dppipe.privacy.tradeoff.attack_limits import AttackLimits

_FALSE_POSITIVE_RATE = 0.01
"""At which rate of false alarms runs are compared."""


@dataclass(frozen=True)
class FinishedRun:
    """One run, as its files tell it."""

    path: str
    name: str
    status: str
    """How it ended, or `unfinished` where it has no summary yet."""
    steps: int
    epsilon: float | None
    """What is claimed; None for a run that isn't private, has failed, or is unfinished."""
    delta: float | None
    tpr_at_fpr_1_percent: float | None
    """What any attacker reaches at most at a false-positive rate of 1 %; None where nothing is
    claimed, and for runs of earlier versions."""
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
        """Summarise at least one number."""
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
    tpr_at_fpr_1_percent: Spread | None
    """What any attacker reaches at most; None unless each of the runs has such a limit."""
    metrics: Mapping[str, Spread]
    """Each metric over the runs that have it.

    Those whose names start with `nonprivate/` were computed without noise.
    """

    def to_data(self) -> dict[str, Any]:
        """Return plain data, for programs."""
        return asdict(self)


def find_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Read run directories, or all that are somewhere below a folder such as `runs/digits`."""
    found: dict[Path, FinishedRun] = {}
    for path in paths:
        plans = _plans(path)
        if not plans:
            raise UsageError(
                f"{path}: expected a run directory, or a folder of them, got none with a plan.json."
            )
        for plan in plans:
            found[plan.parent.resolve()] = _read(plan.parent)
    return list(found.values())


def _plans(path: Path) -> list[Path]:
    own = path / "plan.json"
    try:
        return [own] if own.is_file() else sorted(path.rglob("plan.json"))
    except OSError:
        return []


def compare_runs(runs: Sequence[FinishedRun]) -> list[Comparison]:
    """Put runs of one name together, in the order in which the names come."""
    by_name: dict[str, list[FinishedRun]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    return [_compare(name, group) for name, group in by_name.items()]


def _compare(name: str, runs: Sequence[FinishedRun]) -> Comparison:
    statuses = Counter(run.status for run in runs)
    epsilons = [run.epsilon for run in runs if run.epsilon is not None]
    deltas = [run.delta for run in runs if run.delta is not None]
    limits = [run.tpr_at_fpr_1_percent for run in runs]
    rates = [rate for rate in limits if rate is not None]
    return Comparison(
        name=name,
        runs=len(runs),
        statuses=dict(statuses),
        private=len(deltas) == len(runs),
        epsilon=Spread.of(epsilons) if epsilons else None,
        delta=max(deltas, default=None),
        tpr_at_fpr_1_percent=Spread.of(rates) if len(rates) == len(runs) else None,
        metrics=_metrics(runs),
    )


def _metrics(runs: Sequence[FinishedRun]) -> dict[str, Spread]:
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in run.metrics.items():
            values.setdefault(name, []).append(value)
    return {name: Spread.of(found) for name, found in values.items()}


def _read(path: Path) -> FinishedRun:
    plan = _json(path / "plan.json")
    summary = _json(path / "summary.json")
    status = summary.get("status", "unfinished")
    try:
        facts = {
            "path": str(path),
            "name": plan.get("name", path.name),
            "status": status,
            "steps": summary.get("steps", 0),
            "epsilon": None if status == "failed" else summary.get("epsilon"),
            "delta": plan.get("delta"),
            "tpr_at_fpr_1_percent": _true_positive_rate(path / "privacy.json"),
            "metrics": _scores(summary),
        }
        return TypeAdapter(FinishedRun).validate_python(facts)
    except (ValidationError, TypeError):
        raise UsageError(
            f"{path / 'summary.json'}: expected what a run has written, got other types."
        ) from None


def _scores(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the single numbers of the last validation and of the test split that aren't null."""
    scores = {**summary.get("metrics", {}), **summary.get("test", {})}
    return {
        name: value
        for name, value in scores.items()
        if value is not None and not isinstance(value, list)
    }


def _true_positive_rate(path: Path) -> float | None:
    """Return what a run's `privacy.json` says of attackers, where it claims something."""
    limits = _json(path).get("attack_limits")
    if limits is None:
        return None
    try:
        return AttackLimits.model_validate(limits).true_positive_rate(_FALSE_POSITIVE_RATE)
    except (ValidationError, UsageError):
        raise UsageError(
            f"{path}: attack_limits: expected what a run has written, got other values."
        ) from None


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
