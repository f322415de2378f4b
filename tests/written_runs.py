"""Run directories that are written without training: a plan, a ledger and a summary."""

from __future__ import annotations

import json
from pathlib import Path

from private_steps import step_charge

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
    rows = []
    if parts.scaling is not None:
        rows.append(
            _row(plan, step=0, event=parts.scaling.event(), z=parts.scaling.noise_multiplier),
        )
    for step in range(1, charged + 1):
        z = plan.noise_multiplier(step)
        event = parts.event(z, rate=plan.batch(step).sample_rate)
        rows.append(_row(plan, step=step, event=event, z=z))
    return rows


def _row(plan: StepPlan, *, step: int, event: object, z: float) -> Charge:
    assert plan.relation is not None
    return step_charge(
        step=step,
        event=event,
        mechanism=plan.mechanism if step else "gaussian",
        sampler=plan.sampler if step else "full_batch",
        sample_rate=plan.batch(step).sample_rate if step else 1.0,
        noise_multiplier=float(z),
        max_grad_norm=plan.max_grad_norm,
        relation=plan.relation,
        unit=plan.unit,
        count=plan.charges(step) if step else 1,
        epsilon=plan.epsilon_after(step),
    )
