"""From a spec to a finished run directory: assemble the parts, fit, and say how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.data.base import split_records
from dppipe.engine.allocator import keep_freed_memory
from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import ModelInputs, made_up_batch, stages_of
from dppipe.learners.ranks import leave_group, naming_lost_ranks
from dppipe.lightning.callback import DPCallback
from dppipe.lightning.checkpoints import restoring
from dppipe.lightning.covered import cover
from dppipe.lightning.module import SpecModule
from dppipe.lightning.objectives import objective_of
from dppipe.lightning.own_modules import own_module
from dppipe.pipeline.adapting import make_network
from dppipe.pipeline.audited import Audited, made_up_splits
from dppipe.pipeline.interruptions import interrupted, naming_interruptions
from dppipe.pipeline.learn import run_learner
from dppipe.pipeline.memory import fitting_memory
from dppipe.pipeline.paid import Paid
from dppipe.pipeline.scoring import scoring_loader
from dppipe.pipeline.seeding import seed_weights
from dppipe.pipeline.trainer import make_trainer, quieten_lightning
from dppipe.planning.step_plan import StepPlan
from dppipe.runs.directory import RunDirectory
from dppipe.runs.outcome import Outcome

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.data.base import Splits
    from dppipe.learners.sgd.canaries import Canaries
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec


def run_spec(
    spec: Spec,
    plan: Plan,
    *,
    run_dir: Path | None = None,
    resume: RunDirectory | None = None,
    callbacks: Sequence[Callable[[], pl.Callback]] = (),
    audited: Audited | None = None,
) -> Outcome | None:
    """Learn what a spec says within what its plan allows, and leave a run directory.

    Only the first of several processes returns an outcome.

    Args:
        spec: What to train.
        plan: The plan of the spec.
        run_dir: Where a new run is written.
        resume: The run to resume, in place of a new one.
        callbacks: Makers of further callbacks; the model shows first which Lightning it uses.
        audited: What an audit plants in the run, and on which records it trains.

    Example:
        >>> from pathlib import Path
        >>> from dppipe.pipeline.run import run_spec
        >>> from dppipe.planning.privacy_plan import make_plan
        >>> from dppipe.spec import load_spec
        >>> spec = load_spec("pipelines/quickstart.yaml", overrides=["train.epochs=1"])
        >>> run_spec(spec, make_plan(spec), run_dir=Path("runs/new")).status
        'completed'
    """
    if spec.tune is not None:
        raise UsageError(
            "tune: expected a spec of one run, got a private search. Remove the block."
        )
    keep_freed_memory()
    if isinstance(plan, StepPlan):
        return train(
            spec, plan, run_dir=run_dir, resume=resume, callbacks=callbacks, audited=audited
        )
    return run_learner(spec, plan, run_dir=run_dir, resume=resume)


def train(
    spec: Spec,
    plan: StepPlan,
    *,
    run_dir: Path | None,
    resume: RunDirectory | None,
    callbacks: Sequence[Callable[[], pl.Callback]],
    audited: Audited | None = None,
    paid: Paid | None = None,
) -> Outcome | None:
    """Train by DP-SGD, or without a budget by the same steps: the loop is a Trainer's.

    Args:
        spec: What to train.
        plan: The plan of the spec.
        run_dir: Where a new run is written.
        resume: The run to resume, in place of a new one.
        callbacks: Makers of further callbacks.
        audited: What an audit plants into the run; None for any other run.
        paid: What one run of a search shares with the others; None for any other run.
    """
    seed_weights(spec.seed)
    module = build_module(spec, steps=plan.steps)
    # The module loads Lightning, which then sets its own log level.
    quieten_lightning()
    inputs: ModelInputs | None = None
    if paid is not None:
        splits = paid.splits
    else:
        inputs = read_inputs(spec, plan, audited)
        splits = inputs.splits
    canaries = None if audited is None else audited.canaries
    private = _private_callback(
        spec, plan, inputs, run_dir=run_dir, resume=resume, canaries=canaries
    )
    if paid is not None:
        cover(private, row=paid.row)
    others = [make() for make in callbacks]
    _fit(spec, plan, module, splits, private=private, others=others, resume=resume)
    leave_group()
    if private.outcome is not None and private.outcome.status == "interrupted":
        raise interrupted(private.outcome, plan, exit_code=private.signals.exit_code)
    return private.outcome


def run_paid(
    spec: Spec, plan: Plan, *, run_dir: Path | None, resume: RunDirectory | None, paid: Paid
) -> Outcome | None:
    """Make one run of a search, whatever its learner.

    Args:
        spec: What to learn.
        plan: The run's own plan.
        run_dir: Where a new run is written.
        resume: The run to resume, in place of a new one.
        paid: What the run shares with the others of its search.
    """
    if isinstance(plan, StepPlan):
        return train(spec, plan, run_dir=run_dir, resume=resume, callbacks=(), paid=paid)
    return run_learner(spec, plan, run_dir=run_dir, resume=resume, paid=paid)


def read_inputs(spec: Spec, plan: Plan, audited: Audited | None = None) -> ModelInputs:
    """Read the records that are trained and validated on, on their way to the model."""
    with fitting_memory("data"):
        raw = _records(spec, plan, audited)
        return ModelInputs(stages_of(spec.data), raw._replace(test=None))


def _fit(
    spec: Spec,
    plan: StepPlan,
    module: pl.LightningModule,
    splits: Splits,
    *,
    private: DPCallback,
    others: list[pl.Callback],
    resume: RunDirectory | None,
) -> None:
    """Fit the module, from the checkpoint of a resumed run if it has one."""
    checkpoint = None
    if resume is not None and resume.last_checkpoint.exists():
        checkpoint = resume.last_checkpoint
    trainer = make_trainer(
        spec,
        plan,
        module,
        # A Trainer that is at its last step already would return at once, but the end of a resumed
        # run may be left to write.
        most_steps=plan.steps if resume is None else plan.steps + 1,
        callbacks=[private, *others],
        validates=splits.val is not None,
    )
    loader = private.loader(
        splits.train,
        synthetic=partial(made_up_batch, spec.data),
        ranges=spec.data.ranges,
    )
    with naming_interruptions(private, plan), naming_lost_ranks(), restoring(checkpoint):
        trainer.fit(
            module,
            loader,
            scoring_loader(splits.val, data=spec.data),
            ckpt_path=checkpoint,
            weights_only=True,
        )


def _private_callback(
    spec: Spec,
    plan: StepPlan,
    inputs: ModelInputs | None,
    *,
    run_dir: Path | None,
    resume: RunDirectory | None,
    canaries: Canaries | None,
) -> DPCallback:
    return DPCallback(
        sampler=spec.sized_sampler(),
        clipping=spec.clipping,
        noise=spec.noise,
        accountant=spec.accountant,
        budget=None if spec.budget == "none" else spec.budget,
        run_dir=run_dir,
        name=spec.name,
        holdout=spec.data.holdout,
        reproducible_seed=spec.seed if spec.reproducible else None,
        checkpoint_every=spec.train.checkpoint_every or plan.steps_per_epoch,
        plan=plan,
        config=spec.to_yaml(),
        data=spec.data,
        resume=resume,
        averaging=spec.optimizer.averaging if spec.optimizer is not None else None,
        inputs=inputs,
        summary=False,  # the command prints it
        canaries=canaries,
    )


def _records(spec: Spec, plan: Plan, audited: Audited | None) -> Splits:
    """Return the records of a spec; an audit may train on made-up ones, and then reads none."""
    if audited is not None and audited.made_up and isinstance(plan, StepPlan):
        return made_up_splits(spec.data, plan)
    return split_records(spec.data, seed=spec.seed, by=plan.splits_by)


def build_module(spec: Spec, *, steps: int) -> pl.LightningModule:
    """Build the Lightning module of a spec.

    It is the user's own, or an ordinary network with its objective and optimizer.
    """
    if not spec.takes_steps:
        raise UsageError(
            f"learner: expected dp_sgd, whose module is trained step by step, got "
            f"{spec.learner.kind!r}."
        )
    network = make_network(spec.model, spec.data.input_layout, outputs=spec.data.outputs)
    own = own_module(network, spec)
    if own is not None:
        return own
    if spec.optimizer is None:
        raise UsageError(
            "optimizer: expected one, as the model is not a LightningModule. Name one, such as "
            "`optimizer: sgd`."
        )
    return SpecModule(
        network,
        objective=objective_of(spec),
        optimizer=spec.optimizer,
        steps=steps,
    )
