"""Whether a plan belongs to the parts that a run is given with it.

A run takes its numbers from the plan and its methods from the parts: how records are drawn, clipped
and noised. The plan's epsilon holds only if both describe the same run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from dppipe.errors import PrivacyRefusal
from dppipe.planning.steps.batch_numbers import sampling_numbers
from dppipe.planning.steps.budget_numbers import stated_budget
from dppipe.planning.steps.clipping_plan import clipping_numbers
from dppipe.planning.steps.timetable import Timetable
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_budget, limits_of_cost

if TYPE_CHECKING:
    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.step_plan import BatchRun, BoundRun, NoiseRun, StepPlan
    from dppipe.privacy.tradeoff.attack_limits import AttackLimits

_TOLERANCE = 1e-9
"""How far numbers may be apart, relatively: other machines round the last digit otherwise."""
_COST_TOLERANCE = 1e-6
"""The same for an epsilon, which is the result of many sums."""


def refuse_other_parts(
    plan: StepPlan,
    parts: PrivateParts,
    *,
    holdout: Literal["public", "private"],
    reproducible: bool,
) -> None:
    """Refuse a plan that other parts were planned with, or that states less than its steps cost.

    Guarantees:
    - The plan's sampler, rates, clipping, noise, accountant, budget and statistics are those of
      the parts.
    - What the plan's steps cost, by the parts' accountant, is at most the plan's epsilon. In a run
      whose noise follows released values, its filter guarantees the budget instead.

    A schedule that the budget has cut short is an exception: its shape depends on the number of
    steps that were requested, which the plan doesn't contain. Its cost is still checked.

    Args:
        plan: The plan.
        parts: The components that the run is to use.
        holdout: Whether the run's holdout is public.
        reproducible: Whether the run's noise has a public seed.
    """
    stated = {**_stated(parts), "holdout": holdout, "reproducible": reproducible}
    differences = _value_differences(plan, stated)
    if stated["relation"] == plan.relation:
        # Under different relations the number of records, which rates depend on, isn't comparable.
        differences += _number_differences(plan, parts)
    if not differences:
        differences = _cost_differences(plan, parts)
    if differences:
        raise PrivacyRefusal(
            "plan: expected the plan of the parts that this run is given, got another one. "
            "Make the plan from the same parts, or give none.\n" + "\n".join(differences)
        )


def _stated(parts: PrivateParts) -> dict[str, Any]:
    """Return what a plan repeats of its parts, whatever the number of records and steps."""
    facts = parts.facts
    del facts["earlier"]  # only planning finds the earlier runs, so the parts of a run have none
    is_private = parts.budget is not None
    follows_releases = is_private and parts.noise.adaptive
    return {
        **stated_budget(parts),
        **facts,
        "certified": is_private,
        "schedule": "filter" if follows_releases else "committed",
    }


def _number_differences(plan: StepPlan, parts: PrivateParts) -> list[str]:
    """Compare the numbers that follow from the parts and the plan's own records and steps."""
    sampler = parts.sampler
    table = Timetable(
        parts,
        rate=sampler.rate(plan.records),
        expected=sampler.expected(plan.records),
        epoch=sampler.epoch_length(plan.records),
        steps=plan.steps if plan.ends_at == "steps" else None,
    )
    differences = _value_differences(plan, sampling_numbers(table))
    if parts.budget is not None:
        noisy_steps = sum(run.steps for run in plan.noise)
        if noisy_steps != plan.steps:
            return [
                *differences,
                f"plan.noise: expected noise for {plan.steps} steps, got it for {noisy_steps}.",
            ]
        clipping = clipping_numbers(
            parts.clipping,
            plan.noise,
            expected_batch_size=plan.expected_batch_size,
            uses=_uses(plan),
        )
        differences += _value_differences(plan, clipping)
    return differences + _schedule_differences(plan, table)


def _uses(plan: StepPlan) -> float:
    """Return how often a record is used in the run, on average."""
    if not plan.batches:
        return plan.sample_rate * plan.steps
    return math.fsum(run.sample_rate * run.steps for run in plan.batches)


def _value_differences(plan: StepPlan, expected: dict[str, Any]) -> list[str]:
    differences = []
    for name, value in expected.items():
        got = getattr(plan, name)
        if not _close(value, got):
            differences.append(f"plan.{name}: expected {value!r}, got {got!r}.")
    return differences


def _schedule_differences(plan: StepPlan, table: Timetable) -> list[str]:
    """Compare what changes from step to step, where the parts decide it for this plan."""
    parts = table.parts
    knows_last_step = table.steps is not None
    differences: list[str] = []
    if plan.private and (parts.noise.constant or knows_last_step):
        noise = table.noise(_scale(plan, table), steps=plan.steps)
        differences += _run_differences("noise", noise, plan.noise)
    if not parts.sampler.scheduled or knows_last_step:
        differences += _run_differences("batches", table.batches(plan.steps), plan.batches)
    if parts.clipping.bound_schedule is None or knows_last_step:
        differences += _run_differences("bounds", table.bounds(plan.steps), plan.bounds)
    return differences


def _scale(plan: StepPlan, table: Timetable) -> float:
    """Return the noise scale of the parts; for `auto`, the one that the plan starts with."""
    scale = table.parts.noise.noise_multiplier
    if scale != "auto":
        return float(scale)
    relative = table.noise(1.0, steps=plan.steps)[0].noise_multiplier
    return plan.noise_multiplier(1) / relative


def _run_differences(
    name: str,
    expected: Sequence[NoiseRun | BatchRun | BoundRun],
    got: Sequence[NoiseRun | BatchRun | BoundRun],
) -> list[str]:
    """Compare two schedules step by step; name the first step at which they differ."""
    expected_ends = list(accumulate(run.steps for run in expected))
    got_ends = list(accumulate(run.steps for run in got))
    for step in sorted({*expected_ends, *got_ends}):
        wanted = _values_at(step, expected, expected_ends)
        found = _values_at(step, got, got_ends)
        if not _close(wanted, found):
            return [f"plan.{name}: expected {wanted} at step {step}, got {found}."]
    return []


def _values_at(
    step: int, runs: Sequence[NoiseRun | BatchRun | BoundRun], ends: Sequence[int]
) -> dict[str, float] | None:
    place = bisect_left(ends, step)
    if place == len(runs):
        return None
    return runs[place].model_dump(exclude={"steps"})


def _cost_differences(plan: StepPlan, parts: PrivateParts) -> list[str]:
    """Compose the plan's own steps: they must not cost more than the plan states."""
    budget = parts.budget
    if budget is None:
        return []
    if plan.schedule == "filter":
        differences = _value_differences(plan, {"epsilon": budget.epsilon})
        return differences + _limit_differences(plan, limits_of_budget(budget))
    accountant = parts.accountant_of_all(plan.earlier, relation=budget.relation)
    cost = accountant.compose(parts.step_events(plan), relation=budget.relation)
    epsilon = cost.epsilon(budget.delta)
    stated = min(plan.epsilon or 0.0, plan.epsilon_after(plan.steps), budget.epsilon)
    if epsilon > stated * (1 + _COST_TOLERANCE):
        return [
            f"plan.epsilon: expected at least {epsilon:g}, which its steps cost, got {stated:g}."
        ]
    return _limit_differences(plan, limits_of_cost(cost, delta=budget.delta))


def _limit_differences(plan: StepPlan, needed: AttackLimits) -> list[str]:
    """Compare what any attacker can reach; plans of earlier versions don't state it."""
    if plan.attack_limits is None or not plan.attack_limits.understates(needed):
        return []
    return [f"plan.attack_limits: expected at least {needed!r}, got {plan.attack_limits!r}."]


def _close(expected: Any, got: Any) -> bool:
    """Whether two values are equal, but for the last digits of a number."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return all(_close(expected[name], got[name]) for name in expected)
    if isinstance(expected, float) and isinstance(got, float):
        return math.isclose(expected, got, rel_tol=_TOLERANCE)
    return bool(expected == got)
