"""The privacy statement of a run directory, made from its files alone, so that it can be made again at any time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from dppipe.errors import PrivacyRefusal
from dppipe.planning.plan import Plan
from dppipe.privacy.charges import read_ledger
from dppipe.privacy.statement import Course, Statement
from dppipe.privacy.statement_text import statement_text
from dppipe.randomness.gaussian import DEFAULT_LEVEL, SECURE_LEVEL
from dppipe.randomness.laplace import LAPLACE_LEVEL
from dppipe.training.run_directory import RunDirectory, write_json, write_whole
from dppipe.training.run_files import read_plan, read_summary

STATED = ("status", "steps", "epsilon", "epsilon_spent", "charged", "validations", "versions", "ledger_head")
"""What a statement takes from the summary."""


def write_statement(run: RunDirectory) -> Statement:
    """Write `privacy.json` and `privacy.md` anew."""
    statement = statement_of(run)
    write_json(run.statement.with_suffix(".json"), statement.to_data())
    write_whole(run.statement, statement_text(statement).encode())
    return statement


def statement_of(run: RunDirectory) -> Statement:
    """Read the plan and the summary of a run as one statement."""
    plan, summary = read_plan(run), read_summary(run, *STATED)
    executed = _executed(run, plan)
    _refuse_more_updates_than_charges(run, plan, summary, executed)
    return Statement(
        name=plan.name,
        status=summary["status"],
        stopped_early=summary.get("stopped_early") is True,
        private=plan.private,
        reproducible=plan.reproducible,
        unit=plan.unit,
        relation=plan.relation,
        records=plan.records,
        epsilon=summary["epsilon"],
        epsilon_spent=summary["epsilon_spent"],
        budget_epsilon=plan.budget_epsilon,
        delta=plan.delta,
        curve=plan.whole_curve,
        schedule=plan.schedule,
        scope=plan.scope,
        accountant=plan.accountant,
        certified=plan.certified,
        sampler=plan.sampler,
        mechanism=plan.mechanism,
        noise_level=_noise_level(plan),
        scaling_noise_multiplier=plan.scaling_noise_multiplier,
        scaling_statistics=plan.scaling_statistics,
        secure=plan.secure,
        clipping=_clipping(plan),
        planned=_planned(plan),
        executed=executed,
        independence=summary.get("independence"),
        holdout=plan.holdout if _has_holdout(summary) else "none",
        evaluation_looks=summary["validations"] + summary.get("evaluations", 0),
        diagnostics=plan.diagnostics == "nonprivate",
        pretrained=plan.pretrained and plan.earlier is None,
        own_module=plan.own_module,
        earlier=_earlier(plan),
        versions=summary["versions"],
        config_hash=hashlib.sha256(run.config.read_bytes()).hexdigest() if run.config.exists() else None,
        ledger_head=summary["ledger_head"],
    )


def _refuse_more_updates_than_charges(run: RunDirectory, plan: Plan, summary: Mapping[str, Any], executed: Course | None) -> None:
    """Refuse to state a claim for updates that this ledger never charged."""
    charged = executed.steps if executed is not None else 0
    if plan.private and not (isinstance(summary["steps"], int) and summary["steps"] <= charged):
        raise PrivacyRefusal(
            f"{run.summary}: steps: expected at most {charged}, the steps that the ledger charged, got {summary['steps']!r}. "
            "Updates that weren't charged here have no statement."
        )


def _has_holdout(summary: Mapping[str, Any]) -> bool:
    """Return whether a run has validation data, or has scored a test split; older ones don't say."""
    return bool(summary.get("validates", True) or summary["validations"] or summary.get("evaluations"))


def _earlier(plan: Plan) -> tuple[str, ...]:
    """Say what the claim includes of earlier runs, and what it then rests on."""
    if plan.earlier is None:
        return ()
    said = []
    for one in plan.earlier.runs:
        ledger = f"{one.charged} charges, ledger head {one.ledger_head}"
        said.append(f"Training started from the weights of the private run {one.run_dir} ({ledger}).")
    if plan.earlier.records == "disjoint":
        return (*said, "The spec states that no person has records in both: the larger of the two costs is claimed.")
    chosen = "The settings of this run are taken as chosen without looking at them."
    return (*said, f"The cost of that training is part of every epsilon here. {chosen}")


def _noise_level(plan: Plan) -> str:
    if plan.mechanism == "laplace":
        return LAPLACE_LEVEL
    return SECURE_LEVEL if plan.secure else DEFAULT_LEVEL


def _clipping(plan: Plan) -> str:
    if plan.averages:
        return f"{plan.clipping}, averaged with others before: noise is scaled to twice the bound"
    if plan.statistics_std is not None:
        return f"{plan.clipping}: noisy counts of unclipped ones were released too, within each step's noise multiplier"
    if not plan.failure_delta:
        return plan.clipping
    return f"{plan.clipping}, by estimated norms: {plan.failure_delta:g} of delta pays for bounds that may fail"


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
