"""From a learner's releases to a plan: the noise that lands on the budget, the epsilon after each.

This plans every learner but DP-SGD, whose releases are steps (`privacy_plan.py`). No record is
read; the only fact about the data is the number of records, where it is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.planning.earlier.leftover import LEAST_LEFT
from dppipe.planning.earlier.runs import Earlier, refuse_earlier, with_earlier
from dppipe.planning.first_releases import first_releases, refuse_preludes
from dppipe.planning.plan import Plan
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.plugin_releases import check_plugin_planning, check_plugin_releases
from dppipe.planning.step_runs import CurvePoint
from dppipe.privacy.accountants.base import require_certificate
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.printing import shown
from dppipe.privacy.release import (
    PlansReleases,
    Prelude,
    PublicFacts,
    Release,
    is_built_in,
)
from dppipe.privacy.tradeoff.limits_of_cost import limits_of_cost
from dppipe.privacy.tradeoff.profile import whole_curve_of

if TYPE_CHECKING:
    from dppipe.planning.step_plan import StepPlan
    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.events.sequences import Steps


@dataclass(frozen=True)
class LearnerParts:
    """What makes a run without steps private."""

    learner: PlansReleases
    accountant: Accountant
    budget: Budget | None
    unit: str
    earlier: Earlier | None = None
    """The private runs that have trained the starting weights."""
    preludes: tuple[Prelude, ...] = ()
    """What is released of the records before the learner's own releases."""

    @property
    def first_releases(self) -> tuple[Release, ...]:
        """What is released before the learner's own releases, in order."""
        return first_releases(self.preludes, self.budget)

    def committed(self, plan: Plan | StepPlan) -> Steps:
        """Return the events of all that a plan may charge."""
        return [(release.dp_event, release.count) for release in plan.releases]


def plan_releases(
    parts: LearnerParts,
    facts: PublicFacts,
    *,
    name: str,
    learner: str,
    allow_estimate: bool = False,
    **stated: Any,
) -> Plan:
    """Commit to a learner's releases.

    Guarantee: what all releases cost together, by the accountant, is at most the budget.

    Args:
        parts: The learner, the accountant and the budget.
        facts: What is known before a record is read.
        name: What the run is called.
        learner: The learner's kind.
        allow_estimate: Whether the accountant may only estimate; no run accepts such a plan.
        **stated: Facts that the plan repeats.
    """
    budget = parts.budget
    numbers: dict[str, Any]
    if not is_built_in(parts.learner):
        check_plugin_planning(parts.learner, facts)
    if budget is None:
        releases = _releases(parts, facts, scale=parts.learner.scale or 1.0)
        numbers = _without_budget()
    else:
        _refuse_delta(budget, facts)
        refuse_preludes(parts.first_releases, parts.accountant, budget)
        releases, numbers = _within_budget(parts, facts, budget, allow_estimate=allow_estimate)
    return Plan(
        name=name,
        learner=learner,
        records=facts.records,
        releases=tuple(PlannedRelease.of(release) for release in releases),
        unit=parts.unit,
        earlier=parts.earlier,
        **numbers,
        **stated,
    )


def _within_budget(
    parts: LearnerParts, facts: PublicFacts, budget: Budget, *, allow_estimate: bool
) -> tuple[list[Release], dict[str, Any]]:
    if parts.earlier is not None:
        _refuse_spent(parts.earlier, parts, budget)
    accountant = with_earlier(
        parts.accountant, parts.earlier, before=(), failure=0.0, relation=budget.relation
    )
    scale = parts.learner.scale
    if scale is None:
        found = calibrate(
            accountant,
            lambda scale: _events(_releases(parts, facts, scale=scale)),
            budget=budget,
            allow_estimate=allow_estimate,
        )
        scale = found.scale
    releases = _releases(parts, facts, scale=scale)
    if len(releases) == len(parts.preludes):
        raise PrivacyRefusal("learner: expected at least one release, got none. Fix releases().")
    events = _events(releases)
    composed = accountant.compose(events, relation=budget.relation)
    if not allow_estimate:
        require_certificate(composed)
    counts = [sum(release.count for release in releases[:done]) for done in _all_of(releases)]
    epsilons = accountant.curve(events, counts, delta=budget.delta, relation=budget.relation)
    if epsilons[-1] > budget.epsilon:
        raise _over_budget(
            parts.learner, releases[-1].place, scale, cost=epsilons[-1], budget=budget
        )
    points = []
    for done, epsilon in zip(_all_of(releases), epsilons, strict=True):
        points.append(CurvePoint(step=done, epsilon=epsilon))
    return releases, {
        "private": True,
        "relation": budget.relation,
        "scope": budget.scope,
        "budget_epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": parts.accountant.kind,
        "certified": composed.certified,
        "epsilon": epsilons[-1],
        "curve": tuple(points),
        "whole_curve": whole_curve_of(composed, delta=budget.delta),
        "attack_limits": limits_of_cost(composed, delta=budget.delta),
    }


def _over_budget(
    learner: PlansReleases, place: str, scale: float, *, cost: float, budget: Budget
) -> PrivacyRefusal:
    """Return the refusal of noise that is set; `place` is an option other than the multiplier."""
    expected = f"expected releases that cost at most epsilon {budget.epsilon:g}, got"
    if place:
        return PrivacyRefusal(
            f"{place}: {expected} ones that cost {shown(cost)}. Lower it, or take auto."
        )
    return PrivacyRefusal(
        f"learner.{learner.scale_option}: {expected} {scale:g}, at which they cost {shown(cost)}. "
        "Raise it, or take auto."
    )


def _refuse_spent(earlier: Earlier, parts: LearnerParts, budget: Budget) -> None:
    """Refuse earlier runs that can't be counted with this one, or that leave nothing to it."""
    cost = refuse_earlier(earlier, budget, parts.accountant, unit=parts.unit, adaptive=False)
    left = budget.epsilon - cost
    same = earlier.records == "same"
    too_little = same and parts.learner.scale is None and left < LEAST_LEFT * budget.epsilon
    if left < 0 or (left == 0 and same) or too_little:
        remainder = ""
        if left > 0:
            remainder = (
                f": {left:.2g} is left, for which the noise would hide everything that the "
                "records could teach"
            )
        raise PrivacyRefusal(
            f"budget.epsilon: expected more than {shown(cost)}, which the weights of "
            f"{earlier.names} cost before this run's first release, got {budget.epsilon:g}"
            f"{remainder}. Raise it, or start from other weights."
        )


def _releases(parts: LearnerParts, facts: PublicFacts, *, scale: float) -> list[Release]:
    """Return all releases of a run in order: those before the learner's own, then its own."""
    own = list(parts.learner.releases(facts, scale=scale))
    if not is_built_in(parts.learner):
        check_plugin_releases(own)
    return [*parts.first_releases, *own]


def _without_budget() -> dict[str, Any]:
    nothing = dict.fromkeys(
        ("relation", "scope", "budget_epsilon", "delta", "accountant", "epsilon")
    )
    return {"private": False, "certified": False, "curve": (), "whole_curve": {}, **nothing}


def _all_of(releases: Sequence[Release]) -> range:
    return range(1, len(releases) + 1)


def _events(releases: Sequence[Release]) -> Steps:
    return [(release.event, release.count) for release in releases]


def _refuse_delta(budget: Budget, facts: PublicFacts) -> None:
    """Refuse a delta at which a run may publish a whole record."""
    if facts.records is not None and budget.delta >= 1 / facts.records:
        raise PrivacyRefusal(
            f"budget.delta: expected less than 1/records = {1 / facts.records:.3g}, got "
            f"{budget.delta:g}. At that delta a run may publish a whole record; choose a smaller "
            "one."
        )
