"""The privacy statement of a run directory, made from its files alone, so that it can be made again at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.planning.plan import Plan
from dppipe.privacy.charges import read_ledger
from dppipe.runs.directory import RunDirectory, write_json, write_whole
from dppipe.runs.files import SCOPE_FACTS, read_plan, read_summary
from dppipe.runs.statement.data import statement_data
from dppipe.runs.statement.statement import (
    Course,
    EarlierRun,
    Files,
    ScopeTerms,
    Source,
    Statement,
)
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
"""What a statement takes from the summary."""


def write_statement(run: RunDirectory) -> Statement:
    """Write `privacy.json` and `privacy.md` anew."""
    statement = statement_of(run)
    write_json(run.statement.with_suffix(".json"), statement_data(statement))
    write_whole(run.statement, statement_text(statement).encode())
    return statement


def statement_of(run: RunDirectory) -> Statement:
    """Read the files of a run as one statement."""
    plan, summary = read_plan(run), read_summary(run, *STATED)
    executed = _executed(run, plan)
    _refuse_more_updates_than_charges(run, plan, summary, executed)
    return Statement(
        name=plan.name,
        status=summary["status"],
        stopped_early=summary.get("stopped_early") is True,
        private=plan.private,
        reproducible=plan.reproducible,
        epsilon=summary["epsilon"],
        epsilon_spent=summary["epsilon_spent"],
        budget_epsilon=plan.budget_epsilon,
        delta=plan.delta,
        curve=plan.whole_curve,
        schedule=plan.schedule,
        accountant=plan.accountant,
        certified=plan.certified,
        planned=_planned(plan),
        executed=executed,
        updates=summary["steps"],
        independence=summary.get("independence"),
        diagnostics=plan.diagnostics == "nonprivate",
        begun=summary.get("begun"),
        ended=summary.get("ended"),
        starts=summary.get("starts", 1),
        files=_files(run),
        versions=summary["versions"],
        config_hash=hashlib.sha256(run.config.read_bytes()).hexdigest()
        if run.config.exists()
        else None,
        ledger_head=summary["ledger_head"],
        **_data(plan),
        **_mechanism(plan),
        **_looks(plan, summary),
        **_other_runs(plan, summary),
    )


def _data(plan: Plan) -> dict[str, Any]:
    """Return whose records the run trained on, and where they came from."""
    return {
        "unit": plan.unit,
        "max_records_per_user": plan.max_records_per_user,
        "relation": plan.relation,
        "records": plan.records,
        "source": None if plan.data is None else Source(**plan.data.model_dump()),
        # Plans of earlier versions name a split even where none was made: a run without a spec has none.
        "split": plan.split if plan.spec_hash else None,
    }


def _mechanism(plan: Plan) -> dict[str, Any]:
    """Return what was drawn, clipped and noised, and how."""
    return {
        "sampler": plan.sampler,
        "mechanism": plan.mechanism,
        "secure": plan.secure,
        "clipping": plan.clipping,
        "averages": plan.averages,
        "noisy_counts": plan.statistics_std is not None,
        "failure_delta": plan.failure_delta,
        "scaling_noise_multiplier": plan.scaling_noise_multiplier,
        "scaling_statistics": plan.scaling_statistics,
    }


def _looks(plan: Plan, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return how often records beside the training records were looked at."""
    holdout: Literal["public", "private", "none"] = plan.holdout
    if not summary.get("validates", True) and not summary["validations"]:
        holdout = "none"
    return {
        "holdout": holdout,
        "validation_looks": summary["validations"],
        "test_looks": summary.get("evaluations", 0),
        "test_holdout": plan.holdout,
    }


def _other_runs(plan: Plan, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of other runs: those before this one, and those of its scope."""
    terms = summary.get("scope")
    found = plan.earlier.runs if plan.earlier is not None else ()
    earlier = []
    for one in found:
        head = one.ledger_head
        earlier.append(EarlierRun(run_dir=one.run_dir, charged=one.charged, ledger_head=head))
    return {
        "scope": plan.scope,
        "scope_terms": None
        if terms is None
        else ScopeTerms(**{name: terms[name] for name in SCOPE_FACTS}),
        "pretrained": plan.pretrained and plan.earlier is None,
        "own_module": plan.own_module,
        "earlier": tuple(earlier),
        "earlier_records": plan.earlier.records if plan.earlier is not None else "same",
    }


def _files(run: RunDirectory) -> Files:
    return Files(
        final_weights=run.final_checkpoint.exists(),
        checkpoint=run.last_checkpoint.exists(),
        statistics=run.statistics.exists(),
        curves=any(run.path.glob("events.out.tfevents.*")),
    )


def _refuse_more_updates_than_charges(
    run: RunDirectory, plan: Plan, summary: Mapping[str, Any], executed: Course | None
) -> None:
    """Refuse to state a claim for updates that this ledger never charged."""
    charged = executed.steps if executed is not None else 0
    if plan.private and not (isinstance(summary["steps"], int) and summary["steps"] <= charged):
        raise PrivacyRefusal(
            f"{run.summary}: steps: expected at most {charged}, the steps that the ledger charged, got {summary['steps']!r}. "
            "Updates that weren't charged here have no statement."
        )


def _planned(plan: Plan) -> Course | None:
    if not plan.private:
        return None
    factors = [run.factor for run in plan.bounds] or [1.0]
    return Course(
        steps=plan.steps,
        sample_rate=_range([run.sample_rate for run in plan.batches] or [plan.sample_rate]),
        noise_multiplier=_range([run.noise_multiplier for run in plan.noise]),
        max_grad_norm=_range([plan.max_grad_norm * factor for factor in factors]),
    )


def _executed(run: RunDirectory, plan: Plan) -> Course | None:
    """Say what the ledger's steps were done with: where bounds adapt or epochs were cut short, only the ledger knows."""
    charges = read_ledger(run.ledger, plan=run.plan.read_bytes()).charges if plan.private else ()
    steps = [charge for charge in charges if charge.step]
    if not steps:
        return None
    return Course(
        steps=len(steps),
        sample_rate=_range([charge.sample_rate for charge in steps]),
        noise_multiplier=_range([charge.noise_multiplier for charge in steps]),
        max_grad_norm=_range([charge.max_grad_norm for charge in steps]),
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
