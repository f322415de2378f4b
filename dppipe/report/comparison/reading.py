"""Runs as their files tell them: how each ended, what it claims, its metrics and its options.

Everything is read from run directories; nothing of a run is loaded or run again. What lies inside a
run directory (the winner of a search, an audit) is no run of its own. Read next: `settings.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from dppipe.errors import UsageError
from dppipe.privacy.tradeoff.attack_limits import AttackLimits
from dppipe.report.comparison.options import options_of_plan, options_of_spec

Claim = Literal["epsilon", "none", "seeded", "not private"]
"""What a run says of its records: an epsilon, nothing (it failed or hasn't ended), nothing because
its noise was seeded, or that it isn't private."""
FINISHED = ("completed", "budget_exhausted")
NONPRIVATE = "nonprivate/"
_FALSE_POSITIVE_RATE = 0.01
"""At which rate of false alarms runs are compared."""


@dataclass(frozen=True)
class ComparedRun:
    """One run."""

    path: str
    name: str
    status: str
    """How it ended, or `unfinished` where it has no summary yet."""
    claim: Claim
    epsilon: float | None
    """What is claimed; None where nothing is."""
    delta: float | None
    relation: str | None
    unit: str | None
    tpr_at_fpr_1_percent: float | None
    """What any attacker reaches at most at a false-positive rate of 1 %; None where nothing is
    claimed, and for runs of earlier versions."""
    seed: int | None
    seconds: float | None
    metrics: Mapping[str, float]
    """Of the last validation and of the test split; those of a private holdout are named
    `nonprivate/...`."""
    options: Mapping[str, Any]
    """What may differ between settings, by dotted names."""

    @property
    def finished(self) -> bool:
        """Whether the run has ended as planned."""
        return self.status in FINISHED


def find_runs(paths: Sequence[Path]) -> list[ComparedRun]:
    """Read run directories, or all that are somewhere below a folder such as `runs/digits`."""
    found: dict[Path, ComparedRun] = {}
    for path in paths:
        folders = _run_folders(path)
        if not folders:
            raise UsageError(
                f"{path}: expected a run directory, or a folder of them, got none with a plan.json."
            )
        for folder in folders:
            where = folder.resolve()
            if where not in found:
                found[where] = read_run(folder)
    return list(found.values())


def _run_folders(path: Path) -> list[Path]:
    """Return the run directories at or below a path, without looking inside of one."""
    try:
        if (path / "plan.json").is_file():
            return [path]
        below = sorted(child for child in path.iterdir() if child.is_dir())
    except OSError:
        return []
    folders: list[Path] = []
    for child in below:
        if not child.is_symlink():
            folders += _run_folders(child)
    return folders


def read_run(path: Path) -> ComparedRun:
    """Read the files of one run."""
    plan = _json(path / "plan.json")
    summary = _json(path / "summary.json")
    stated = _json(path / "privacy.json")
    status = summary.get("status", "unfinished")
    claim = _claim(plan, summary, stated, status=status)
    spec = _spec(path)
    try:
        facts = {
            "path": str(path),
            "name": plan.get("name", path.name),
            "status": status,
            "claim": claim,
            "epsilon": summary.get("epsilon") if claim == "epsilon" else None,
            "delta": plan.get("delta"),
            "relation": plan.get("relation"),
            "unit": plan.get("unit"),
            "tpr_at_fpr_1_percent": _true_positive_rate(path / "privacy.json", stated, claim=claim),
            "seed": None if spec is None else spec.get("seed"),
            "seconds": summary.get("seconds"),
            "metrics": _scores(summary),
            "options": options_of_plan(plan) if spec is None else options_of_spec(spec, plan),
        }
        return TypeAdapter(ComparedRun).validate_python(facts)
    except (ValidationError, TypeError, AttributeError):
        raise UsageError(
            f"{path / 'summary.json'}: expected what a run has written, got other types."
        ) from None


def _claim(
    plan: Mapping[str, Any],
    summary: Mapping[str, Any],
    stated: Mapping[str, Any],
    *,
    status: str,
) -> Claim:
    """Return what a run claims; only one that has ended as planned claims an epsilon."""
    if not plan.get("private", plan.get("delta") is not None):
        return "not private"
    if plan.get("reproducible"):
        return "seeded"
    if status not in FINISHED or summary.get("epsilon") is None:
        return "none"
    withdrawn = summary.get("certified") is False or stated.get("protects") is False
    return "none" if withdrawn else "epsilon"


def _spec(path: Path) -> dict[str, Any] | None:
    """Return the spec of a run, or that of the whole search; None for a run made in Python."""
    from dppipe.spec.yaml.reader import read_yaml

    searched = path / "tune" / "config.yaml"
    own = searched if searched.is_file() else path / "config.yaml"
    try:
        text = own.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{own}: expected a spec that can be read, got {type(error).__name__}."
        ) from None
    data = read_yaml(text).data
    if not isinstance(data, dict):
        raise UsageError(f"{own}: expected the spec of a run, got something else.")
    return data


def _scores(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the single numbers of the last validation and of the test split that aren't null."""
    scores = {**summary.get("metrics", {}), **summary.get("test", {})}
    found: dict[str, Any] = {}
    for name, value in scores.items():
        if value is not None and not isinstance(value, list):
            found[name] = value
    return found


def _true_positive_rate(path: Path, stated: Mapping[str, Any], *, claim: Claim) -> float | None:
    """Return what a run's `privacy.json` says of attackers, where it claims something."""
    limits = stated.get("attack_limits")
    if limits is None:
        return None
    try:
        rate = AttackLimits.model_validate(limits).true_positive_rate(_FALSE_POSITIVE_RATE)
    except (ValidationError, UsageError):
        raise UsageError(
            f"{path}: attack_limits: expected what a run has written, got other values."
        ) from None
    return rate if claim == "epsilon" else None


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
