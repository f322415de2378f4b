"""`dppipe plan`: everything that can be known about a run before a record is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.screen import say
from dppipe.cli.spec_file import read_spec

if TYPE_CHECKING:
    from dppipe.cli.printing.curves import Point
    from dppipe.planning.plan import Plan
    from dppipe.planning.step_plan import StepPlan


def plan(
    spec_path: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Show the noise, the steps and the epsilon curve of a run.

    Of a spec with `tune` it shows the cost of the whole search. No record is read and nothing is
    written.
    """
    from dppipe.cli.printing.release_noise import noise_block
    from dppipe.cli.printing.scope_outlook import plan_outlook
    from dppipe.planning.any_plan import make_any_plan
    from dppipe.planning.release_noise import release_noise
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.load import placing_problems

    with placing_problems(spec_path, overrides=overrides or ()):
        spec = read_spec(spec_path, overrides=overrides, plugins=plugins)
        made = make_any_plan(spec, registry=Registry(plugins), allow_estimate=True)
        outlook = plan_outlook(spec, made)
        noise = release_noise(spec.data, made)
    if not as_json:
        scope = outlook.lines() if outlook is not None else {}
        say("\n\n".join([plan_text(made, scope=scope), *noise_block(noise)]))
        return
    more: dict[str, Any] = {}
    if outlook is not None:
        more["shared_budget"] = outlook.to_data()
    if noise:
        more["release_noise"] = [each.to_data() for each in noise]
    if more:
        typer.echo(json.dumps(json.loads(made.to_json()) | more, indent=2))
    else:
        typer.echo(made.to_json().decode().rstrip())


def plan_text(plan: Plan, *, scope: Mapping[str, str] | None = None) -> str:
    """Lay a plan out for a person, within 80 columns; `scope` is what its shared budget says."""
    from dppipe.cli.printing.release_plan import releases_text
    from dppipe.cli.printing.tune_plan import search_text
    from dppipe.planning.step_plan import StepPlan
    from dppipe.planning.tuning.tune_plan import TunePlan

    if isinstance(plan, StepPlan):
        return _step_plan_text(plan, scope=scope)
    if isinstance(plan, TunePlan):
        return search_text(plan, scope=scope or {})
    return releases_text(plan, scope=scope or {})


def _step_plan_text(plan: StepPlan, *, scope: Mapping[str, str] | None) -> str:
    from dppipe.cli.printing.attacks import attack_blocks
    from dppipe.cli.printing.curves import curve_text
    from dppipe.cli.printing.wrapping import table, wrapped
    from dppipe.privacy.printing import shown, shown_delta
    from dppipe.runs.statement.claims import guarantee_of_plan

    drawn = _drawn(plan)
    facts = {
        drawn: plan.records if plan.records is not None else "secret (add_remove)",
        "sampler": _sampler(plan),
        "batches": _batches(plan),
        "steps": _steps(plan),
        "clipping": f"{plan.clipping}, max_grad_norm {_bound(plan)}{_twice(plan)}",
    }
    if plan.private and plan.epsilon is not None:
        span = _span(
            plan.noise[0].noise_multiplier,
            plan.noise[-1].noise_multiplier,
            moves=len(plan.noise) > 1,
        )
        facts |= {
            "noise multiplier": f"{span} ({_mechanism(plan)}){_adapting(plan)}",
            "noise split": _split(plan),
            "before the steps": _preludes(plan),
            "starts from": _earlier(plan),
            "budget": f"epsilon {plan.budget_epsilon:g} at delta "
            f"{shown_delta(plan.delta or 0.0)}{_set_aside(plan)}",
            "epsilon": f"{shown(plan.epsilon)} after the last step",
            "accountant": f"{plan.accountant}, "
            f"{'certified: a proven upper bound' if plan.certified else 'an ESTIMATE'}",
            "rounding": _rounding(plan),
            "relation": f"{plan.relation}, unit: one {plan.unit}",
            **(scope or {}),
        }
    parts = [table({name: str(value) for name, value in facts.items() if value})]
    if plan.private and plan.schedule == "committed":
        tenths = [max(1, round(plan.steps * k / 10)) for k in range(1, 11)]
        parts.append(f"epsilon spent after each tenth of the run, `|`: the budget{_odometer(plan)}")
        points = [_point(plan, step) for step in dict.fromkeys(tenths)]
        parts.append(curve_text(points, limit=plan.budget_epsilon))
    parts += attack_blocks(plan)
    parts.append("\n".join(wrapped(sentence) for sentence in guarantee_of_plan(plan)))
    return "\n\n".join([f"{plan.name}", *parts])


def _steps(plan: StepPlan) -> str:
    each = f"(an epoch is {plan.steps_per_epoch})"
    return f"{plan.steps} {each}; the run ends at {_ends(plan)}"


def _mechanism(plan: StepPlan) -> str:
    return f"{plan.mechanism}, secure" if plan.secure else plan.mechanism


def _odometer(plan: StepPlan) -> str:
    if not plan.odometer:
        return ""
    return "; in brackets:\nthe claim at a stop that follows what was released"


def _point(plan: StepPlan, step: int) -> Point:
    from dppipe.cli.printing.curves import Point
    from dppipe.privacy.printing import shown

    claim = plan.odometer_claim(step)
    return Point(step, plan.epsilon_after(step), "" if claim is None else shown(claim))


def _adapting(plan: StepPlan) -> str:
    return (
        "; then it follows released values, and a filter admits each step"
        if plan.schedule == "filter"
        else ""
    )


def _drawn(plan: StepPlan) -> str:
    """Name what a step draws: users where the sampler takes them with all their records, else
    records.
    """
    return "users" if plan.unit == "user" else "records"


def _span(first: float, last: float, *, moves: bool) -> str:
    return f"{first:.6g} at first, {last:.6g} at last" if moves else f"{first:.6g}"


def _sampler(plan: StepPlan) -> str:
    first, last, moves = plan.batch(1), plan.batch(plan.steps), len(plan.batches) > 1
    rate = _span(first.sample_rate, last.sample_rate, moves=moves)
    size = _span(first.expected_batch_size, last.expected_batch_size, moves=moves)
    each = f"{_drawn(plan)} a step{'' if _fixed(plan) else ' on average'}"
    return (
        f"{plan.sampler}, sample rate {rate}{f'; {each}: {size}' if moves else f', {size} {each}'}"
    )


def _bound(plan: StepPlan) -> str:
    first, last = (plan.max_grad_norm * plan.bound_factor(step) for step in (1, plan.steps))
    return _span(first, last, moves=len(plan.bounds) > 1)


def _fixed(plan: StepPlan) -> bool:
    return plan.empty_batch_probability == 0 and plan.largest_likely_batch == math.ceil(
        plan.expected_batch_size
    )


def _batches(plan: StepPlan) -> str:
    if plan.empty_batch_probability is None:
        return ""
    if _fixed(plan):
        return f"never more than {plan.largest_likely_batch} {_drawn(plan)}, and never empty"
    largest = f"at most {plan.largest_likely_batch} {_drawn(plan)} but once in a million steps"
    return f"{largest}; empty with probability {plan.empty_batch_probability:.2g}"


def _twice(plan: StepPlan) -> str:
    return (
        "; averages of examples are clipped, so noise is scaled to twice the bound"
        if plan.averages
        else ""
    )


def _set_aside(plan: StepPlan) -> str:
    return (
        f", of which {plan.failure_delta:g} pays for bounds that may fail"
        if plan.failure_delta
        else ""
    )


def _split(plan: StepPlan) -> str:
    if plan.statistics_std is None:
        return ""
    count = (
        f"the count of unclipped examples, noise {plan.statistics_std:g} (times the square root "
        "of the number of groups)"
    )
    own = plan.gradient_multiplier(plan.noise_multiplier(1))
    return f"of each step's cost a part goes to {count}; the gradient's own multiplier is {own:.6g}"


def _rounding(plan: StepPlan) -> str:
    from dppipe.privacy.printing import shown

    if not plan.rounding_cost:
        return ""
    cost = f"at most {shown(plan.rounding_cost)} of epsilon"
    return f"{len(plan.noise)} noise multipliers are accounted as fewer, rounded down: {cost}"


def _preludes(plan: StepPlan) -> str:
    """Say what is released before the first step, and what that costs."""
    from dppipe.privacy.printing import shown
    from dppipe.runs.statement.other_releases import planned_phrase

    if not plan.releases:
        return ""
    cost = f"epsilon {shown(plan.epsilon_after(0))}"
    if plan.earlier is not None:
        cost += " with the earlier runs"
    return f"{', '.join(planned_phrase(release) for release in plan.releases)}: {cost}"


def _earlier(plan: StepPlan) -> str:
    from dppipe.privacy.printing import shown

    if plan.earlier is None:
        return ""
    cost = (
        f"{plan.earlier.charged} charges, epsilon {shown(plan.epsilon_after(0))} before the "
        "first step"
    )
    how = (
        "added up" if plan.earlier.records == "same" else "disjoint records: the larger cost counts"
    )
    return f"the weights of {plan.earlier.names}: {cost}; {how}"


def _ends(plan: StepPlan) -> str:
    if plan.schedule == "filter":
        return "the budget, if that comes first"
    return "its planned steps" if plan.ends_at == "steps" else "the budget"
