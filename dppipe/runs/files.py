"""Reading a run directory's own files back.

A file that can't be read is an error with its path; nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dppipe.errors import UsageError
from dppipe.planning.plan import Plan
from dppipe.planning.step_plan import plan_from_json
from dppipe.privacy.ledger_reading import LedgerCorrupt, LedgerRows
from dppipe.runs.directory import RunDirectory
from dppipe.runs.verification.checkpoint_heads import checkpoint_head

SCOPE_FACTS = ("epsilon", "delta", "epsilon_spent", "runs")
"""What a statement takes from the facts of a shared budget."""


def read_plan(run: RunDirectory) -> Plan:
    """Read the plan that a run has committed to."""
    try:
        return plan_from_json(_read(run.plan))
    except (ValidationError, RecursionError):
        raise UsageError(
            f"{run.plan}: expected a plan of this version of dppipe, got something else. Put the "
            "one back that the run began with."
        ) from None


def read_summary(run: RunDirectory, *needed: str) -> dict[str, Any]:
    """Read how a run ended, with the needed fields at least.

    The result is empty where the run hasn't ended and no field is needed.
    """
    if not needed and not run.summary.exists():
        return {}
    try:
        summary = json.loads(_read(run.summary))
    except (ValueError, RecursionError):
        summary = None
    if not isinstance(summary, dict) or not _well_formed(summary, needed):
        raise UsageError(
            f"{run.summary}: expected the summary of a run, got something else. Put the one back "
            "that it wrote."
        )
    return summary


def _well_formed(summary: dict[str, Any], needed: Collection[str]) -> bool:
    """Return whether needed fields are there, counts are integers and moments are dates."""
    if not set(needed) <= set(summary):
        return False
    counts = [summary.get(name, 0) for name in ("validations", "evaluations", "starts")]
    moments = [summary.get(name) for name in ("begun", "ended")]
    terms = summary.get("scope") or {}
    if not all(isinstance(count, int) for count in counts) or not isinstance(terms, dict):
        return False
    if terms and not set(SCOPE_FACTS) <= set(terms):
        return False
    try:
        return all(moment is None or bool(datetime.fromisoformat(moment)) for moment in moments)
    except (TypeError, ValueError):
        return False


def refuse_finished(run: RunDirectory) -> None:
    """Refuse a run that has written all that it ever will."""
    summary = read_summary(run)
    ended = summary.get("status") in ("completed", "budget_exhausted")
    if ended and run.final_checkpoint.exists() and run.statement.exists():
        advice = "There is nothing to go on with."
        if summary.get("stopped_early"):
            advice = "A callback stopped it early: train on without that callback in a new run."
        got = "expected an unfinished run, got one that is finished"
        raise UsageError(f"{run.path}: {got}. {advice}")


def refuse_lost_rows(run: RunDirectory, ledger: LedgerRows) -> None:
    """Refuse a ledger without the rows that the last checkpoint or an earlier summary has seen."""
    seen = {
        "summary": read_summary(run).get("ledger_head", ledger.head),
        "checkpoint": checkpoint_head(run) or ledger.head,
    }
    for name, head in seen.items():
        if head not in ledger.heads:
            raise LedgerCorrupt(
                f"{run.ledger}: expected the rows that the {name} has seen, got others. They "
                "can't be trusted."
            )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: expected a file that can be read, got: {error.strerror}."
        ) from error
