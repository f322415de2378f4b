"""How a fit begins: the plan, the model as the private step sees it, the run directory, the step.

Nothing is written before the model was rehearsed and its starting weights were checked. Read next:
`fit.py`, the state of a fit under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dppipe.component import Component
from dppipe.errors import UsageError
from dppipe.learners.inputs.lost_releases import refuse_lost_releases
from dppipe.learners.inputs.model_inputs import ModelInputs
from dppipe.learners.plain_gate import PlainGate
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import PrivateLoader
from dppipe.learners.sgd.canaries import Canaries
from dppipe.learners.sgd.plain_step import PlainStep
from dppipe.learners.sgd.step import PrivateStep
from dppipe.lightning.averages import WeightAverage
from dppipe.lightning.fit import Fit, make_private_step, open_gate
from dppipe.lightning.isolation.private_model import PlainModel, PrivateModel
from dppipe.lightning.starting_weights import StartingWeights
from dppipe.optim.averaging.base import Averaging
from dppipe.planning.comparison import refuse_other_parts
from dppipe.planning.data_source import source_of_dataset
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.directory import RunDirectory
from dppipe.runs.follower import Follower
from dppipe.runs.python_resume import check_resumed, with_committed_curve
from dppipe.runs.record import RunRecord
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    import pytorch_lightning as pl


@dataclass(frozen=True)
class RunOptions:
    """The name and directory of a run, and its settings beside the private parts."""

    name: str
    run_dir: Path | None
    holdout: Literal["public", "private"]
    seed: int | None
    """The public seed of sampler and noise in a reproducible run, which protects nobody."""
    config: str | None
    """The text of the effective spec, where there is one."""
    data: Component | None
    resume: RunDirectory | None
    averaging: Averaging | None
    inputs: ModelInputs | None
    canaries: Canaries | None = None
    """What an audit of this run plants; None in an ordinary run."""
    covered_by: str | None = None
    """The hash of the row of another ledger that has paid for this run; None for any other run."""


def plan_fit(
    trainer: pl.Trainer, parts: PrivateParts, options: RunOptions, loader: PrivateLoader
) -> StepPlan:
    """Return the plan of a fit whose Trainer says how long it lasts."""
    return plan_privacy(
        parts,
        name=options.name,
        records=loader.units,
        steps=_wanted_steps(trainer, epoch=parts.sampler.epoch_length(loader.units)),
        holdout=options.holdout,
        reproducible=options.seed is not None,
        own_module=True,
        data=source_of_dataset(loader.dataset),
    )


def open_model(
    trainer: pl.Trainer, parts: PrivateParts, loader: PrivateLoader, options: RunOptions
) -> PrivateModel | PlainModel:
    """Return the Trainer's module as its steps see it."""
    module = trainer.lightning_module
    if parts.budget is None:
        return PlainModel(module, parts)
    return PrivateModel(module, parts, trainer=trainer, loader=loader, seed=options.seed)


def begin_fit(
    trainer: pl.Trainer,
    model: PrivateModel | PlainModel,
    parts: PrivateParts,
    plan: StepPlan,
    options: RunOptions,
    *,
    ranks: Ranks,
    start: StartingWeights,
    restored: Mapping[str, Any],
) -> Fit:
    """Open the run directory and its ledger, release what comes before the steps, make the step.

    Args:
        trainer: The Trainer whose fit it is.
        model: Its module, as the step sees it.
        parts: The private components of the fit.
        plan: What the run commits to.
        options: The other settings of the run.
        ranks: This process among those that train together.
        start: What is known of the weights that training starts from.
        restored: The callback's state in a checkpoint; empty where there is none.
    """
    is_seeded = options.seed is not None
    refuse_other_parts(plan, parts, holdout=options.holdout, reproducible=is_seeded)
    start.check(trainer, trainer.lightning_module, plan, ranks=ranks)
    if options.resume is not None and ranks.first:
        plan = with_committed_curve(options.resume, plan)
    record = _open_record(plan, parts, options, ranks=ranks, restored=restored)
    try:
        start.open(record.run.path if isinstance(record, RunRecord) else None)
        return _fit_of(trainer, model, parts, plan, options, record, ranks=ranks, restored=restored)
    except BaseException:
        if isinstance(record, RunRecord):
            record.close()  # the ledger's lock would keep this process from trying again
        raise


def _fit_of(
    trainer: pl.Trainer,
    model: PrivateModel | PlainModel,
    parts: PrivateParts,
    plan: StepPlan,
    options: RunOptions,
    record: RunRecord | Follower,
    *,
    ranks: Ranks,
    restored: Mapping[str, Any],
) -> Fit:
    """Release what comes before the steps, and make the step."""
    run = record.run if isinstance(record, RunRecord) else None
    step: PrivateStep | PlainStep
    if parts.budget is None:
        if options.inputs is not None:
            options.inputs.prepare(plan, run, PlainGate(plan), ranks=ranks)
        step = PlainStep(plan, model.network, model.loss, ranks, taken=restored.get("steps", 0))
    else:
        if isinstance(record, RunRecord):
            refuse_lost_releases(record.run, record.ledger, plan)
            if options.canaries is not None:
                options.canaries.begin(record.run.path, plan)
        gate, upcoming = open_gate(
            parts,
            parts.budget,
            plan,
            record,
            ranks=ranks,
            seed=options.seed,
            restored=restored,
            resume=options.resume,
            covered_by=options.covered_by,
        )
        if options.inputs is not None:
            options.inputs.prepare(plan, run, gate, ranks=ranks)
        step = make_private_step(
            parts,
            plan,
            model.engine,
            gate,
            upcoming,
            restored=restored,
            canaries=options.canaries,
        )
    average = None
    if options.averaging is not None:
        means = restored.get("average")
        average = WeightAverage(model.network, options.averaging, steps=plan.steps, means=means)
    return Fit(trainer, model, record, step, average)


def _open_record(
    plan: StepPlan,
    parts: PrivateParts,
    options: RunOptions,
    *,
    ranks: Ranks,
    restored: Mapping[str, Any],
) -> RunRecord | Follower:
    if not ranks.first:
        return Follower(plan)
    covered = options.covered_by is not None
    if options.resume is not None:
        _refuse_without_canaries(options.resume, options.canaries)
        check_resumed(options.resume, plan, data=options.data)
        return RunRecord.reopen(
            options.resume,
            plan=plan,
            parts=parts,
            restored=restored,
            data=options.data,
            covered=covered,
        )
    option = "--run-dir" if options.config is not None else "run_dir"
    run = RunDirectory.create(options.name, run_dir=options.run_dir, option=option)
    return RunRecord.create(
        run,
        plan=plan,
        parts=parts,
        config=options.config,
        data=options.data,
        covered=covered,
    )


def _refuse_without_canaries(run: RunDirectory, canaries: Canaries | None) -> None:
    """Refuse to go on with an audited run without its canaries."""
    if run.audit_plan.exists() and canaries is None:
        raise UsageError(
            f"{run.path}: expected to go on with the canaries of its audit, got none. "
            f"Go on with: {shown_command('resume', run.path)}"
        )


def _wanted_steps(trainer: pl.Trainer, *, epoch: int) -> int | None:
    """Return the steps that a Trainer is set to take; None where only the budget ends the run."""
    if trainer.max_steps >= 0:
        return trainer.max_steps
    if trainer.max_epochs is not None and trainer.max_epochs >= 0:
        return trainer.max_epochs * epoch
    return None
