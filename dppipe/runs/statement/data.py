"""A privacy statement as plain data: the contents of `privacy.json`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dppipe.privacy.printing import EPSILON_DIGITS
from dppipe.privacy.rounding import round_up
from dppipe.runs.statement.assumptions import assumptions
from dppipe.runs.statement.attacks import attack_introduction, attack_sentences, stated_limits
from dppipe.runs.statement.comparisons import comparison
from dppipe.runs.statement.exclusions import not_covered
from dppipe.runs.statement.noise_levels import learner_noise, noise_level
from dppipe.runs.statement.releases import released
from dppipe.runs.statement.step_ranges import planned_ranges

if TYPE_CHECKING:
    from dppipe.planning.data_source import DataSource
    from dppipe.runs.statement.statement import Files, Statement


def statement_data(statement: Statement) -> dict[str, Any]:
    """Return the plain data of `privacy.json`; the order of the fields is part of the format."""
    return {
        **_run(statement),
        **_cost(statement),
        **_mechanism(statement),
        **_looks(statement),
        **_start(statement),
        **_provenance(statement),
        **_sentences(statement),
        **_attacks(statement),
    }


def _run(statement: Statement) -> dict[str, Any]:
    """Return which run this is, and whose records it trained on."""
    plan = statement.plan
    return {
        "name": plan.name,
        "status": statement.status,
        "stopped_early": statement.stopped_early,
        "private": plan.private,
        "reproducible": plan.reproducible,
        "unit": plan.unit,
        "max_records_per_user": plan.max_records_per_user,
        "relation": plan.relation,
        "records": plan.records,
        "source": None if plan.data is None else _source(plan.data),
        "split": statement.split,
        "begun": statement.begun,
        "ended": statement.ended,
        "starts": statement.starts,
    }


def _files(files: Files) -> dict[str, bool]:
    """Return which files exist; a page, and results of attacks, only if there are some."""
    found = asdict(files)
    for name in ("attacks", "report"):
        if not found[name]:
            del found[name]
    return found


def _source(source: DataSource) -> dict[str, Any]:
    """Return where the records come from; some facts only where there are any."""
    rare = ("bounds", "assumed", "public_files")
    absent = {name for name in rare if not getattr(source, name)}
    return source.model_dump(exclude=absent)


def _cost(statement: Statement) -> dict[str, Any]:
    plan = statement.plan
    return {
        "epsilon": _printed(plan.epsilon),
        "epsilon_spent": _printed(statement.epsilon_spent),
        "budget_epsilon": plan.budget_epsilon,
        "delta": plan.delta,
        "curve": plan.whole_curve,
        "accountant": plan.accountant,
        "certified": plan.certified,
    }


def _mechanism(statement: Statement) -> dict[str, Any]:
    """Return what was drawn, clipped and noised, and how."""
    plan = statement.plan
    steps = statement.step_plan
    planned = planned_ranges(plan)
    executed = statement.executed
    return {
        "learner": plan.learner,
        "schedule": plan.schedule,
        "sampler": None if steps is None else steps.sampler,
        "mechanism": None if steps is None else steps.mechanism,
        "secure": plan.secure,
        "clipping": None if steps is None else steps.clipping,
        "averages": steps is not None and steps.averages,
        "noisy_counts": statement.noisy_counts,
        "failure_delta": plan.failure_delta,
        "planned": None if planned is None else asdict(planned),
        "executed": None if executed is None else asdict(executed),
        "updates": statement.updates,
        "independence": statement.independence,
    }


def _looks(statement: Statement) -> dict[str, Any]:
    """Return how often records beside the training records were looked at."""
    return {
        "holdout": statement.validation,
        "validation_looks": statement.validation_looks,
        "test_looks": statement.test_looks,
        "test_holdout": statement.plan.holdout,
        "diagnostics": statement.diagnostics,
    }


def _start(statement: Statement) -> dict[str, Any]:
    """Return what came before the first step, and which other runs count."""
    plan = statement.plan
    terms = statement.scope_terms
    earlier = []
    for run in plan.earlier.runs if plan.earlier is not None else ():
        facts = {"run_dir": run.run_dir, "charged": run.charged, "ledger_head": run.ledger_head}
        earlier.append(facts)
    return {
        "pretrained": statement.public_weights,
        "own_module": plan.own_module,
        "earlier": earlier,
        "earlier_records": "same" if plan.earlier is None else plan.earlier.records,
        "scope": plan.scope,
        "scope_terms": None if terms is None else asdict(terms),
        "releases": [release.model_dump(exclude={"covers"}) for release in plan.releases],
    }


def _provenance(statement: Statement) -> dict[str, Any]:
    return {
        "files": _files(statement.files),
        "audit": statement.audit,
        **({} if statement.kind is None else {"kind": statement.kind}),
        "versions": dict(statement.versions),
        "config_hash": statement.config_hash,
        "ledger_head": statement.ledger_head,
    }


def _sentences(statement: Statement) -> dict[str, Any]:
    """Return what follows from the facts, most of it in words."""
    plan = statement.plan
    return {
        "status_of_claim": statement.status_of_claim,
        "released": list(released(statement)),
        "protects": statement.protects,
        "guarantee": list(statement.guarantee()),
        "comparison": comparison(statement),
        "accountant_version": statement.versions.get("dppipe"),
        "noise_level": noise_level(
            mechanism=_noise(statement), secure=plan.secure, steps=plan.steps
        ),
        "seeded": plan.reproducible,
        "evaluation_looks": statement.validation_looks + statement.test_looks,
        "assumptions": list(assumptions(statement)),
        "not_covered": not_covered(statement),
    }


def _attacks(statement: Statement) -> dict[str, Any]:
    """Return what any attacker can reach; no field where the plan has no limits."""
    plan = statement.plan
    if plan.attack_limits is None:
        return {}
    limits = stated_limits(statement)
    if limits is None:
        return {"attack_limits": None, "attacks": []}
    said = [*attack_introduction(plan), *attack_sentences(plan, limits)]
    return {"attack_limits": limits.model_dump(mode="json"), "attacks": said}


def _noise(statement: Statement) -> str:
    steps = statement.step_plan
    return learner_noise(statement.plan) if steps is None else steps.mechanism


def _printed(epsilon: float | None) -> float | None:
    if epsilon is None or not math.isfinite(epsilon):
        return None
    return round_up(epsilon, EPSILON_DIGITS)
