"""What a planned run commits to, and a scope has to reserve for it."""

from __future__ import annotations

from dataclasses import replace

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.parts import PrivateParts
from dppipe.planning.plan import Plan
from dppipe.planning.release_plan import LearnerParts
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.filters.filters import Commitment


def commit(plan: Plan, parts: PrivateParts | LearnerParts) -> Commitment:
    """Return the most that a planned run may do; refuse a run that no scope can be charged with."""
    if plan.relation is None or plan.epsilon is None or plan.delta is None:
        raise UsageError(
            "budget.scope: expected a run with a budget, got budget: none. Take the scope or the "
            "`none` away."
        )
    if plan.schedule == "filter":
        raise PrivacyRefusal(
            "budget.scope: expected noise that is fixed in the plan, got a schedule that follows "
            "released values."
        )
    if plan.reproducible:
        raise PrivacyRefusal(
            "budget.scope: expected a run with secret noise, got reproducible: true, which gives "
            "no protection."
        )
    most = Commitment(parts.committed(plan), plan.relation, plan.unit, plan.epsilon, plan.delta)
    return replace(most, takes_steps=isinstance(plan, StepPlan))
