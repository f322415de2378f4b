"""Training a spec with canaries in it, and going on with such a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.audit.one_run.black_box import save_black_box
from dppipe.audit.one_run.canaries.inputs import InputCanaries, mislabelled
from dppipe.audit.one_run.canaries.planting import PlantedCanaries
from dppipe.audit.one_run.canaries.reserved import ReservedCanaries
from dppipe.audit.one_run.plan import (
    LEVEL,
    Kind,
    default_number,
    guesses_of,
    read_audit_plan,
)
from dppipe.audit.one_run.result import Result, assess
from dppipe.audit.one_run.suitability import require_auditable, units_of_plan
from dppipe.errors import UsageError
from dppipe.pipeline.audited import Audited
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.directory import RunDirectory

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.planning.plan import Plan
    from dppipe.runs.outcome import Outcome
    from dppipe.spec.spec import Spec

    Callbacks = Sequence[Callable[[], pl.Callback]]


def audit_training(
    spec: Spec,
    *,
    kind: Kind = "reserved",
    number: int | None = None,
    run_dir: Path | None = None,
    on_data: bool = False,
    callbacks: Callbacks = (),
) -> tuple[Outcome, Result]:
    """Train a spec once with canaries in it; return how the run ended and what the audit found.

    Args:
        spec: What to train.
        kind: Reserved coordinates, or inputs of the model.
        number: How many canaries; 1,000 reserved ones, or a twentieth of the records, up to 500.
        run_dir: Where the run is written.
        on_data: Whether to train on the records. The run is then charged as any other; without it
            records are made up, none is read, and no shared budget is charged.
        callbacks: Makers of further callbacks.

    Example:
        >>> from pathlib import Path
        >>> from dppipe.audit.one_run.training import audit_training
        >>> from dppipe.spec import load_spec
        >>> spec = load_spec("pipelines/quickstart.yaml", overrides=["train.epochs=1"])
        >>> audit_training(spec, number=50, run_dir=Path("runs/audit"))[1].plan.guesses
        22
    """
    spec, plan, canaries = planned_audit(spec, kind=kind, number=number, on_data=on_data)
    audited = Audited(canaries, made_up=not on_data)
    outcome = run_spec(spec, plan, run_dir=run_dir, callbacks=callbacks, audited=audited)
    return finish_audit(outcome, spec, audited)


def planned_audit(
    spec: Spec, *, kind: Kind = "reserved", number: int | None = None, on_data: bool = False
) -> tuple[Spec, StepPlan, PlantedCanaries]:
    """Return the spec that is trained, its plan and the canaries; nothing is written or drawn."""
    if not on_data:
        spec = without_scope(spec)
    plan = make_plan(spec)
    if number is None:
        units = units_of_plan(plan) if isinstance(plan, StepPlan) else 0
        number = default_number(kind, records=units)
    checked = require_auditable(spec, plan, kind=kind, number=number)
    canaries = make_canaries(spec, checked, kind=kind, number=number, made_up=not on_data)
    return spec, checked, canaries


def make_canaries(
    spec: Spec, plan: StepPlan, *, kind: Kind, number: int, made_up: bool
) -> PlantedCanaries:
    """Return the canaries of an audit; their coins are drawn when the run begins."""
    guesses = guesses_of(number)
    if kind == "reserved":
        return ReservedCanaries(number, guesses=guesses, level=LEVEL, made_up=made_up)
    batch = mislabelled(spec.data, number=number, after=units_of_plan(plan))
    by_users = plan.unit == "user"
    return InputCanaries(batch, guesses=guesses, level=LEVEL, made_up=made_up, by_users=by_users)


def canaries_of_run(run: RunDirectory, spec: Spec, plan: Plan) -> Audited | None:
    """Return what to go on with in an audited run; None for an ordinary one."""
    if not run.audit_plan.exists():
        return None
    if not isinstance(plan, StepPlan):
        raise UsageError(f"{run.path}: expected a run that takes steps, got another.")
    audit = read_audit_plan(run)
    canaries = make_canaries(
        spec, plan, kind=audit.canaries, number=audit.number, made_up=audit.made_up
    )
    return Audited(canaries, made_up=audit.made_up)


def finish_audit(outcome: Outcome | None, spec: Spec, audited: Audited) -> tuple[Outcome, Result]:
    """Work out what the audit of a run that has ended found."""
    if outcome is None:
        raise UsageError("audit: expected the first of several processes, got another.")
    run = RunDirectory.open(outcome.run_dir)
    if isinstance(audited.canaries, InputCanaries):
        save_black_box(run, spec, audited.canaries.batch, steps=outcome.plan.steps)
    return outcome, assess(run)


def without_scope(spec: Spec) -> Spec:
    """Return the spec without its shared budget: made-up records spend nothing of it."""
    if spec.budget == "none" or spec.budget.scope is None:
        return spec
    budget = spec.budget.model_copy(update={"scope": None, "store": None})
    return spec.model_copy(update={"budget": budget})
