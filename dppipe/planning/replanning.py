"""The plan of the same run under another epsilon."""

from __future__ import annotations

from dataclasses import replace

from dppipe.planning.parts import PrivateParts
from dppipe.planning.privacy_plan import plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.steps.timetable import Timetable


def replanned(plan: StepPlan, parts: PrivateParts, *, epsilon: float) -> StepPlan | None:
    """Return `plan` with another `budget.epsilon`; None where that can't be planned.

    Guarantee: the noise, the sample rates and the number of steps are those that planning the run
    anew would find. A plan that the budget has cut short doesn't say how many steps were requested,
    so a schedule that depends on its last step can't be planned again.

    Args:
        plan: The run's plan; it must have a budget.
        parts: What makes the run private.
        epsilon: The other epsilon, not above the plan's own.
    """
    if parts.budget is None:
        return None
    budget = parts.budget.model_copy(update={"epsilon": epsilon})
    changed = replace(parts, budget=budget, earlier=plan.earlier)
    steps = plan.steps if plan.ends_at == "steps" else None
    if steps is None and _needs_last_step(plan, changed):
        return None
    return plan_privacy(changed, name=plan.name, records=plan.records, steps=steps)


def _needs_last_step(plan: StepPlan, parts: PrivateParts) -> bool:
    table = Timetable(
        parts,
        rate=plan.sample_rate,
        expected=plan.expected_batch_size,
        epoch=plan.steps_per_epoch,
        steps=None,
    )
    return table.needs_last_step is not None
