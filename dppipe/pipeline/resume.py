"""Resuming an interrupted run: the checkpoint has the weights, the ledger what was spent.

Steps whose updates a crash has lost stay charged. The steps that are left draw anew, with fresh
noise, in new rows of the ledger. So the run can end with fewer updates than planned, never with
more spent than its plan allows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.pipeline.load import spec_of
from dppipe.planning.any_plan import make_any_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.changes import check_unchanged
from dppipe.runs.directory import RunDirectory
from dppipe.runs.files import read_plan, refuse_finished, refuse_lost_rows
from dppipe.runs.origin import check_origin
from dppipe.spec.kinds.registry import Registry

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def prepare_resume(
    run_dir: Path,
    *,
    plugins: Path | None = None,
    accept_changes: bool = False,
    original_is_gone: bool = False,
) -> tuple[RunDirectory, Spec, Plan, int]:
    """Check that a run may be resumed; return its spec, its plan and the last step behind it.

    For a learner without steps it is the last release. Nothing is changed.
    """
    run = RunDirectory.open(run_dir)
    if not run.ledger.exists():
        raise UsageError(
            f"{run.path}: expected a run that has begun, got one without a ledger. Start it anew "
            "in another directory."
        )
    plan = read_plan(run)
    spec = spec_of(_with_spec(run, plan), plugins=plugins)
    _refuse_old_split(plan, run)
    check_unchanged(spec, plan, run, accept_changes=accept_changes)
    check_origin(run, data=spec.data, original_is_gone=original_is_gone)
    ledger = read_ledger(run.ledger, plan=run.plan.read_bytes())
    if not ledger.rows:
        _refuse_other_plan(spec, run, plugins=plugins)
    refuse_lost_rows(run, ledger)
    refuse_finished(run)
    if not isinstance(plan, StepPlan):
        return run, spec, plan, ledger.rows
    taken = plan.start_after(ledger.last_step)
    if taken >= plan.steps and plan.private and not run.last_checkpoint.exists():
        raise PrivacyRefusal(
            f"{run.path}: all {plan.steps} steps are charged and no checkpoint is left to finish "
            "from."
        )
    return run, spec, plan, taken


def _with_spec(run: RunDirectory, plan: Plan) -> RunDirectory:
    """Return where the spec is that the run began with.

    A search that has released its winner keeps its own spec under `tune/`.
    """
    kept = RunDirectory(run.path / "tune")
    return kept if isinstance(plan, TunePlan) and kept.config.exists() else run


def _refuse_other_plan(spec: Spec, run: RunDirectory, *, plugins: Path | None) -> None:
    """Refuse a plan that isn't the spec's, while no row of the ledger names the plan yet."""
    if run.plan.read_bytes() != make_any_plan(spec, registry=Registry(plugins)).to_json():
        raise PrivacyRefusal(
            f"{run.plan}: expected the plan of {run.config}, got another. Start a new run."
        )


def _refuse_old_split(plan: Plan, run: RunDirectory) -> None:
    """Refuse an `add_remove` run of a version that split records by position.

    There one record moved many others.
    """
    if plan.relation == "add_remove" and plan.split != "hash":
        raise PrivacyRefusal(
            f"{run.plan}: expected a split by a hash of each record under add_remove, got one by "
            "position, as earlier versions made. With it one record decides where others are, "
            "which the claimed epsilon doesn't cover. Start a new run: dppipe run splits by hash."
        )
