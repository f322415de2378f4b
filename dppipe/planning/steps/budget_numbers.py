"""A plan's numbers about privacy: its steps, their noise, and the epsilon after each of them.

Three kinds of run are planned here: one whose noise is fixed in the plan, one whose noise follows
released values, and one without a budget. Read next: `noise_scale.py`, which sizes the noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError
from dppipe.planning.earlier.leftover import naming_earlier
from dppipe.planning.first_releases import refuse_preludes
from dppipe.planning.step_runs import CurvePoint
from dppipe.planning.steps.clipping_plan import clipping_numbers
from dppipe.planning.steps.noise_scale import affordable_charges, noise_scale, nothing_fits
from dppipe.planning.steps.odometers import odometer, rounding
from dppipe.privacy.accountants.base import require_certificate
from dppipe.privacy.events.sequences import first
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_budget, limits_of_cost
from dppipe.privacy.tradeoff.profile import whole_curve_of

if TYPE_CHECKING:
    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.steps.timetable import Timetable
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget


def budget_numbers(table: Timetable, *, allow_estimate: bool) -> dict[str, Any]:
    """Return a plan's numbers about privacy; refuse parts that no proof covers together."""
    parts = table.parts
    budget = parts.budget
    if budget is None:
        return _plain_numbers(table)
    parts.refuse_together(budget)
    refuse_preludes(parts.first_releases, parts.accountant, budget)
    with naming_earlier(table, budget):
        accountant = parts.accountant_of_all(parts.earlier, relation=budget.relation)
        scale = noise_scale(table, accountant, budget, allow_estimate=allow_estimate)
        if parts.noise.adaptive:
            return _filtered_numbers(table, budget, scale=scale)
        charges = affordable_charges(
            table, accountant, budget, scale=scale, allow_estimate=allow_estimate
        )
    committed = _committed_numbers(
        table, accountant, budget, scale=scale, charges=charges, allow_estimate=allow_estimate
    )
    return stated_budget(parts) | committed


def stated_budget(parts: PrivateParts) -> dict[str, Any]:
    """Return what a plan repeats of the budget and the accountant."""
    budget = parts.budget
    if budget is None:
        nothing = dict.fromkeys(("relation", "scope", "budget_epsilon", "delta", "accountant"))
        return {"private": False, "unit": "example", **nothing}
    return {
        "private": True,
        "relation": budget.relation,
        "unit": parts.unit,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": parts.accountant.kind,
    }


def _committed_numbers(
    table: Timetable,
    accountant: Accountant,
    budget: Budget,
    *,
    scale: float,
    charges: int,
    allow_estimate: bool,
) -> dict[str, Any]:
    """Plan a run whose noise is fixed before its first step."""
    events = first(table.events(scale, charges=table.charges or charges), charges)
    steps = charges * table.per_charge
    if table.steps:
        steps = min(steps, table.steps)
    composed = accountant.compose(events, relation=budget.relation)
    if not allow_estimate:
        require_certificate(composed)
    at = _stated_counts(table, charges)
    spent = accountant.spending(events, at, delta=budget.delta, relation=budget.relation)
    counts, epsilons = zip(*spent, strict=True)
    claims: tuple[CurvePoint, ...] = ()
    if composed.certified:
        claims = odometer(accountant, events, budget, at=at, table=table, steps=steps)
    return {
        "steps": steps,
        "ends_at": "steps" if steps == table.steps else "budget",
        "certified": composed.certified,
        "epsilon": epsilons[-1],
        "curve": table.curve_points(counts, epsilons, steps=steps),
        "odometer": claims,
        "whole_curve": whole_curve_of(composed, delta=budget.delta)
        | rounding(accountant, events, budget),
        "attack_limits": limits_of_cost(composed, delta=budget.delta),
        **_noise_numbers(table, scale, steps=steps),
    }


def _filtered_numbers(table: Timetable, budget: Budget, *, scale: float) -> dict[str, Any]:
    """Plan a run whose noise follows released values.

    Only its budget is certain, because a filter admits each step.
    """
    parts = table.parts
    steps = table.steps or 0  # `noise_scale` has refused an adaptive schedule without a last step
    events = table.events(scale, charges=steps)
    admission = step_filter(parts.accountant.kind, budget=budget, planned=events)
    if not admission.fits(events[0][0]):
        raise nothing_fits("step", budget, scale)
    return stated_budget(parts) | {
        "schedule": "filter",
        "steps": steps,
        "ends_at": "steps",
        "certified": True,
        "epsilon": budget.epsilon,
        "curve": (CurvePoint(step=steps, epsilon=budget.epsilon),),
        "whole_curve": {},
        "attack_limits": limits_of_budget(budget),
        **_noise_numbers(table, scale, steps=steps),
    }


def _plain_numbers(table: Timetable) -> dict[str, Any]:
    """Return the numbers of a run without a budget."""
    if table.steps is None:
        raise UsageError(
            "train.until: expected steps or epochs: without a budget there is none to train until."
        )
    return stated_budget(table.parts) | {
        "steps": table.steps,
        "ends_at": "steps",
        "noise": (),
        "certified": False,
        "epsilon": None,
        "curve": (),
        "whole_curve": {},
    }


def _noise_numbers(table: Timetable, scale: float, *, steps: int) -> dict[str, Any]:
    noise = table.noise(scale, steps=steps)
    clipping = clipping_numbers(
        table.parts.clipping,
        noise,
        expected_batch_size=table.expected,
        uses=table.uses(steps),
    )
    return {"noise": noise, **clipping}


def _stated_counts(table: Timetable, charges: int) -> list[int]:
    """Return after how many charges a plan certainly states its epsilon: at each tenth."""
    parts = table.parts
    begins_before = parts.before or parts.earlier
    counts = {math.ceil(charges * k / 10) for k in range(1, 11)}
    if begins_before:
        counts.add(0)
    return sorted(counts)
