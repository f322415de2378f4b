"""The privacy statement of a run directory, made from its files alone.

So it can be made again at any time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from dppipe.errors import PrivacyRefusal
from dppipe.planning.plan import Plan
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory, write_json, write_whole
from dppipe.runs.files import SCOPE_FACTS, read_plan, read_summary
from dppipe.runs.released_files import count_released
from dppipe.runs.statement.audit_findings import audit_of_run
from dppipe.runs.statement.data import statement_data
from dppipe.runs.statement.statement import Files, ScopeTerms, Statement
from dppipe.runs.statement.step_ranges import StepRanges, executed_ranges
from dppipe.runs.statement.text import statement_text

STATED = (
    "status",
    "steps",
    "epsilon",
    "epsilon_spent",
    "charged",
    "validations",
    "versions",
    "ledger_head",
)
"""The fields of a summary that a statement needs."""


def write_statement(run: RunDirectory, *, report: bool | None = None) -> Statement:
    """Write `privacy.json` and `privacy.md` anew; `report` as that of `statement_of`."""
    statement = statement_of(run, report=report)
    write_json(run.statement.with_suffix(".json"), statement_data(statement))
    write_whole(run.statement, statement_text(statement).encode())
    return statement


def statement_of(run: RunDirectory, *, report: bool | None = None) -> Statement:
    """Read the files of a run as one statement.

    Args:
        run: The run.
        report: Whether the run has a page, where that is about to be decided; None looks.
    """
    plan = read_plan(run)
    summary = read_summary(run, *STATED)
    executed = _executed(run, plan)
    _refuse_more_updates_than_charges(run, plan, summary, executed)
    audit = audit_of_run(run)
    return Statement(
        plan=plan,
        status=summary["status"],
        stopped_early=summary.get("stopped_early") is True,
        begun=summary.get("begun"),
        ended=summary.get("ended"),
        starts=summary.get("starts", 1),
        epsilon_spent=summary["epsilon_spent"],
        executed=executed,
        updates=summary["steps"],
        independence=summary.get("independence"),
        validates=summary.get("validates", True),
        validation_looks=summary["validations"],
        test_looks=summary.get("evaluations", 0),
        scope_terms=_scope_terms(summary),
        other_releases=count_released(run, plan),
        files=_files(run, report=run.report.exists() if report is None else report),
        audit=None if audit is None else audit.found,
        kind=None if audit is None else audit.kind,
        versions=summary["versions"],
        config_hash=_config_hash(run),
        ledger_head=summary["ledger_head"],
    )


def _executed(run: RunDirectory, plan: Plan) -> StepRanges | None:
    if not plan.private:
        return None
    return executed_ranges(read_ledger(run.ledger, plan=run.plan.read_bytes()).charges)


def _refuse_more_updates_than_charges(
    run: RunDirectory, plan: Plan, summary: Mapping[str, Any], executed: StepRanges | None
) -> None:
    """Refuse to state a claim for updates that this ledger never charged."""
    if not plan.private:
        return
    charged = executed.steps if executed is not None else 0
    updates = summary["steps"]
    if not isinstance(updates, int) or updates > charged:
        raise PrivacyRefusal(
            f"{run.summary}: steps: expected at most {charged}, the steps that the ledger "
            f"charged, got {updates!r}. Updates that weren't charged here have no statement."
        )


def _scope_terms(summary: Mapping[str, Any]) -> ScopeTerms | None:
    terms = summary.get("scope")
    if terms is None:
        return None
    return ScopeTerms(**{name: terms[name] for name in SCOPE_FACTS})


def _files(run: RunDirectory, *, report: bool) -> Files:
    return Files(
        final_weights=run.final_checkpoint.exists(),
        checkpoint=run.last_checkpoint.exists(),
        curves=any(run.path.glob("events.out.tfevents.*")),
        attacks=run.attacks.exists(),
        report=report,
    )


def _config_hash(run: RunDirectory) -> str | None:
    if not run.config.exists():
        return None
    return hashlib.sha256(run.config.read_bytes()).hexdigest()
