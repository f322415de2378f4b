"""The plan of one candidate of a search, whose releases the selection has paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.privacy_plan import make_plan, run_parts
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.step_runs import CurvePoint
from dppipe.planning.tuning.candidate_events import with_noise
from dppipe.spec.tuning.candidates import candidate_spec, list_candidates

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.planning.tuning.tune_plan import TunePlan
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec


def plan_candidate(
    spec: Spec, plan: TunePlan, number: int, *, registry: Registry | None = None
) -> tuple[Spec, Plan]:
    """Return the spec and the plan of one candidate, whose releases the search has paid for.

    Guarantee: the run releases exactly what the search's plan holds for this candidate, beside what
    is released once, before the search; anything else is refused.

    Args:
        spec: The spec of the search.
        plan: The plan of the search.
        number: The candidate's place, from 0.
        registry: Where kinds are looked up, if plugins stand elsewhere than usual.
    """
    from dppipe.privacy.events.plain import event_to_data
    from dppipe.privacy.events.sequences import as_one_event, merge

    if spec.tune is None:
        raise UsageError("tune: expected a spec with a tune block, got one without.")
    planned = plan.search.candidates[number]
    candidate = list_candidates(spec.tune, seed=spec.seed)[number]
    one = candidate_spec(spec, candidate, registry=registry)
    made = with_noise(one, planned.noise_multiplier, registry=registry)
    own = make_plan(made)
    committed = run_parts(made).committed(own)[len(spec.data.preludes) :]
    event = event_to_data(as_one_event(merge(committed)))
    if event != planned.event:
        raise PrivacyRefusal(
            f"tune.candidates.{number}: expected a run that releases what the search has paid for, "
            "got another one. Plan the search again."
        )
    return made, _without_first(own, len(spec.data.preludes))


def _without_first(plan: Plan, count: int) -> Plan:
    """Return a run's plan without its first releases: the search makes these once for all runs.

    The epsilon after each release still includes their cost.
    """
    if not count:
        return plan
    if isinstance(plan, StepPlan):
        return plan.model_copy(update={"releases": plan.releases[count:]})
    points: list[CurvePoint] = []
    for point in plan.curve[count:]:
        points.append(CurvePoint(step=point.step - count, epsilon=point.epsilon))
    return plan.model_copy(update={"releases": plan.releases[count:], "curve": tuple(points)})
