"""Run directories that are written without training: a plan, a ledger and a summary."""

from __future__ import annotations

import json
from pathlib import Path

from private_steps import release_charge, step_charge

from dppipe.planning.parts import PrivateParts
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.ledger import Charge, Ledger


def write_run(folder: Path, parts: PrivateParts, plan: StepPlan, *, charged: int) -> None:
    """Write a run that has charged its statistics, where it has some, and so many steps."""
    folder.mkdir()
    (folder / "plan.json").write_bytes(plan.to_json())
    with Ledger.create(folder / "ledger.jsonl", plan=plan.to_json()) as ledger:
        for charge in charges(parts, plan, charged=charged):
            ledger.charge(charge)
        known = {"ledger_head": ledger.head, "charged": ledger.charged}
        (folder / "summary.json").write_text(json.dumps(known))


def charges(parts: PrivateParts, plan: StepPlan, *, charged: int) -> list[Charge]:
    """Return the rows of a run's statistics and of its first steps."""
    rows = [release_charge(release, plan) for release in parts.first_releases]
    for step in range(1, charged + 1):
        rows.append(_row(parts, plan, step=step))
    return rows


def _row(parts: PrivateParts, plan: StepPlan, *, step: int) -> Charge:
    assert plan.relation is not None
    z = plan.noise_multiplier(step)
    rate = plan.batch(step).sample_rate
    return step_charge(
        step=step,
        event=parts.event(z, rate=rate),
        mechanism=plan.mechanism,
        sampler=plan.sampler,
        sample_rate=rate,
        noise_multiplier=float(z),
        max_grad_norm=plan.max_grad_norm,
        relation=plan.relation,
        unit=plan.unit,
        count=plan.charges(step),
        epsilon=plan.epsilon_after(step),
    )
