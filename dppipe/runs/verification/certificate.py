"""The privacy curve that a run has committed to, from its plan and its ledger.

A run may claim its curve at every delta, not only epsilon at one of them. What an attacker can
reach (`privacy/tradeoff`) and what an audit tests follow from the whole curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.planning.earlier.runs import with_earlier
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.charges import charged_steps
from dppipe.privacy.events.plain import changed_event
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.tradeoff.one_point import OnePoint
from dppipe.runs.files import read_plan
from dppipe.spec.kinds.registry import Registry

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.charges import Charge
    from dppipe.privacy.events.sequences import Steps
    from dppipe.runs.directory import RunDirectory


def certificate_of_run(run: RunDirectory) -> Composition:
    """Return what all releases that a run has committed to cost together.

    It is that of the whole plan, also where the run ended before its last step: that it did may
    have depended on what was released. Where the events of steps that weren't taken can't be told
    from those that were, and of a run whose steps a filter admitted, only the plan's own epsilon
    and delta are known.
    """
    plan = read_plan(run)
    if plan.relation is None or plan.epsilon is None or plan.delta is None:
        raise UsageError(
            f"{run.path}: expected a run with a privacy budget, got one without. It claims nothing."
        )
    rows = read_ledger(run.ledger, plan=run.plan.read_bytes())
    events = _committed(plan, rows.charges)
    if events is None:
        return Certificate(str(plan.accountant), plan.relation, OnePoint(plan.epsilon, plan.delta))
    accountant = with_earlier(
        _accountant(plan),
        plan.earlier,
        before=(),
        failure=plan.failure_delta,
        relation=plan.relation,
    )
    return accountant.compose(events, relation=plan.relation)


def _committed(plan: Plan, charges: Sequence[Charge]) -> Steps | None:
    """Return the events of all that a plan may charge; None where they can't be known."""
    if plan.schedule == "filter":
        return None
    events = [(release.dp_event, release.count) for release in plan.releases]
    if not isinstance(plan, StepPlan):
        return events
    steps = [charge for charge in charges if charge.what == "step"]
    if sum(charge.count for charge in steps) > _planned_charges(plan):
        return [*events, *charged_steps(steps)]
    by_rate = {charge.sample_rate: charge.event for charge in steps}
    for multiplier, rate, count in plan.charged_runs():
        if not count:
            continue
        if rate not in by_rate:
            return None
        events.append((changed_event(by_rate[rate], noise_multiplier=multiplier), count))
    return events


def _planned_charges(plan: StepPlan) -> int:
    return sum(count for _, _, count in plan.charged_runs())


def _accountant(plan: Plan) -> Accountant:
    found = Registry().load("accountant", plan.accountant or "pld")
    if not issubclass(found, Accountant):
        raise UsageError(f"plan.accountant: expected an accountant, got {plan.accountant!r}.")
    return found()
