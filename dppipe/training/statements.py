"""The privacy statement of a run directory, made from its files alone, so that it can be made again at any time."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate

from dppipe.planning.plan import Plan
from dppipe.privacy.charges import read_ledger
from dppipe.privacy.statement import Course, Statement
from dppipe.privacy.statement_text import statement_text
from dppipe.training.run_directory import RunDirectory, write_json, write_whole


def write_statement(run: RunDirectory) -> Statement:
    """Write `privacy.json` and `privacy.md` anew."""
    statement = statement_of(run)
    write_json(run.statement.with_suffix(".json"), statement.to_data())
    write_whole(run.statement, statement_text(statement).encode())
    return statement


def statement_of(run: RunDirectory) -> Statement:
    """Read the plan and the summary of a run as one statement."""
    plan = Plan.from_json(run.plan.read_bytes())
    summary = json.loads(run.summary.read_bytes())
    return Statement(
        name=plan.name,
        status=summary["status"],
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
        scope=plan.scope,
        accountant=plan.accountant,
        certified=plan.certified,
        sampler=plan.sampler,
        mechanism=plan.mechanism,
        clipping=_clipping(plan),
        planned=_course(plan, plan.steps, bounds=(plan.max_grad_norm, plan.max_grad_norm)),
        executed=_course(plan, summary["charged"], bounds=_bounds(run, plan)),
        holdout=plan.holdout,
        evaluation_looks=summary["validations"] + summary.get("evaluations", 0),
        diagnostics=plan.diagnostics == "nonprivate",
        versions=summary["versions"],
        config_hash=hashlib.sha256(run.config.read_bytes()).hexdigest() if run.config.exists() else None,
        ledger_head=summary["ledger_head"],
    )


def _clipping(plan: Plan) -> str:
    if not plan.failure_delta:
        return plan.clipping
    return f"{plan.clipping}, by estimated norms: {plan.failure_delta:g} of delta pays for bounds that may fail"


def _bounds(run: RunDirectory, plan: Plan) -> tuple[float, float]:
    """Give the least and the greatest bound that steps were clipped with; where it adapts, the ledger knows."""
    if plan.statistics_std is None or not plan.private:
        return plan.max_grad_norm, plan.max_grad_norm
    used = [charge.max_grad_norm for charge in read_ledger(run.ledger, plan=run.plan.read_bytes()).charges]
    return min(used, default=plan.max_grad_norm), max(used, default=plan.max_grad_norm)


def _course(plan: Plan, steps: int, *, bounds: tuple[float, float]) -> Course | None:
    if not plan.private or not steps:
        return None
    starts = accumulate((run.steps for run in plan.noise), initial=0)
    multipliers = [run.noise_multiplier for run, start in zip(plan.noise, starts, strict=False) if start < steps]
    return Course(
        steps=steps,
        sample_rate=(plan.sample_rate, plan.sample_rate),
        noise_multiplier=(min(multipliers), max(multipliers)),
        max_grad_norm=bounds,
    )
