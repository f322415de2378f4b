"""Resuming a run by `DPCallback(resume=...)`: the checks that `dppipe resume` makes of a spec.

A run commits to its plan before its first step, and its claim is the plan's. So a callback that
plans anything else can't resume it. Read next: `resume.py`, the same for runs of a spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.planning.plan import Plan
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.privacy.tradeoff.profile import PROFILE
from dppipe.runs.files import read_plan, refuse_lost_rows
from dppipe.runs.origin import check_origin

if TYPE_CHECKING:
    from dppipe.component import Component
    from dppipe.runs.directory import RunDirectory

_CHOSEN = (
    "records",
    "steps",
    "sampler",
    "sample_rate",
    "clipping",
    "max_grad_norm",
    "budget_epsilon",
    "delta",
    "relation",
    "accountant",
    "holdout",
    "name",
)
"""What a user sets; other numbers of a plan follow from these."""


def with_committed_curve(run: RunDirectory, plan: StepPlan) -> StepPlan:
    """Return the plan with the epsilon curve that the run began with, if both end alike.

    An earlier version states epsilon at fewer points, and the ledger goes on as it began. The
    curve's bytes are bound to the ledger by its first row.
    """
    committed = read_plan(run)
    if committed.curve and plan.curve and committed.curve[-1] == plan.curve[-1]:
        return plan.model_copy(update={"curve": committed.curve})
    return plan


def check_resumed(run: RunDirectory, plan: Plan, *, data: Component | None) -> None:
    """Refuse another plan, a ledger that lacks rows, and a copy of a run made in Python.

    Guarantee: every step of a resumed run is planned as it was when the run began, so that the
    claim of its plan holds for the steps before and after the interruption together. Rows that the
    last checkpoint or the summary of an earlier end has seen are there.
    """
    committed = read_plan(run)
    plan = _as_written_by(committed, plan)
    if plan != committed:
        raise PrivacyRefusal(
            f"resume: expected the settings that {run.path} began with, got "
            f"{_difference(committed, plan)}. Its claim is for the plan that it began with: pass "
            "the same settings and data, and the same length to the Trainer, or start a new run."
        )
    refuse_lost_rows(run, read_ledger(run.ledger, plan=run.plan.read_bytes()))
    if not run.config.exists():
        check_origin(run, data=data, original_is_gone=run.original_is_gone)


def _as_written_by(committed: Plan, plan: Plan) -> Plan:
    """Return a plan without what plans of an earlier version don't have."""
    if committed.attack_limits is None:
        plan = plan.model_copy(update={"attack_limits": None})
    if PROFILE not in committed.whole_curve:
        kept = {name: value for name, value in plan.whole_curve.items() if name != PROFILE}
        plan = plan.model_copy(update={"whole_curve": kept})
    return plan


def _difference(committed: Plan, plan: Plan) -> str:
    # What describes the steps comes before what follows from them, such as epsilon.
    of_steps = [name for name in type(plan).model_fields if name not in Plan.model_fields]
    for name in (*_CHOSEN, *of_steps, *Plan.model_fields):
        was = getattr(committed, name, None)
        now = getattr(plan, name, None)
        if was != now:
            return f"{name} {now!r} instead of {was!r}"
    return "other settings"
