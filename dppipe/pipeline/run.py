"""From a spec to a finished run directory: assemble the parts, fit, and say how it ended."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from dppipe.data.base import split_records
from dppipe.data.reading.record_checks import usable_part
from dppipe.engine.allocator import keep_freed_memory
from dppipe.errors import Interrupted, UsageError
from dppipe.learners.private_scaling import InputScaling
from dppipe.learners.ranks import leave_group, naming_lost_ranks
from dppipe.lightning.callback import DPCallback
from dppipe.lightning.checkpoints import DurableCheckpoints, restoring
from dppipe.lightning.module import SpecModule
from dppipe.lightning.namespaces import NAMES, chosen_name, exceptions, library, name_of
from dppipe.lightning.objectives import Objective
from dppipe.lightning.own_modules import own_module
from dppipe.lightning.strategies import PrivateDDP
from dppipe.pipeline.adapting import make_network
from dppipe.pipeline.memory import fitting_memory
from dppipe.pipeline.seeding import seed_weights
from dppipe.runs.directory import RunDirectory
from dppipe.runs.outcome import Outcome

if TYPE_CHECKING:
    import pytorch_lightning as pl
    from torch.utils.data import Dataset

    from dppipe.data.base import Data, Splits
    from dppipe.planning.plan import Plan
    from dppipe.spec.spec import Spec

SCORING_BATCH_SIZE = 1024


def run_spec(
    spec: Spec,
    plan: Plan,
    *,
    run_dir: Path | None = None,
    resume: RunDirectory | None = None,
    callbacks: Sequence[Callable[[], pl.Callback]] = (),
) -> Outcome | None:
    """Train what a spec says within what its plan allows, and leave a run directory; `resume` goes on with one.

    Only the first of several processes has an outcome. `callbacks` are made once the model has shown which Lightning it uses.
    """
    keep_freed_memory()
    seed_weights(spec.seed)
    module = build_module(spec, steps=plan.steps)
    _quieten_lightning()  # after the module has loaded Lightning, which sets its own level when it is loaded
    with fitting_memory("data"):
        splits = split_records(spec.data, seed=spec.seed, by=plan.splits_by)
    private = _private_callback(spec, plan, splits, run_dir=run_dir, resume=resume)
    # A Trainer that is at its last step already would return at once, but the end of a resumed run may be left to write.
    most = plan.steps if resume is None else plan.steps + 1
    made = [private, *(make() for make in callbacks)]
    trainer = make_trainer(
        spec, plan, module, most_steps=most, callbacks=made, validates=splits.val is not None
    )
    checkpoint = (
        resume.last_checkpoint if resume is not None and resume.last_checkpoint.exists() else None
    )
    loader = private.loader(splits.train, synthetic=spec.data.synthetic, ranges=spec.data.ranges)
    with _naming_interruptions(private, plan), naming_lost_ranks(), restoring(checkpoint):
        trainer.fit(
            module,
            loader,
            scoring_loader(splits.val, data=spec.data),
            ckpt_path=checkpoint,
            weights_only=True,
        )
    leave_group()
    if private.outcome is not None and private.outcome.status == "interrupted":
        raise _interrupted(private.outcome, plan, exit_code=private.signals.exit_code)
    return private.outcome


def _private_callback(
    spec: Spec, plan: Plan, splits: Splits, *, run_dir: Path | None, resume: RunDirectory | None
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
        scaling=_input_scaling(spec, splits),
    )


@contextmanager
def _naming_interruptions(private: DPCallback, plan: Plan) -> Iterator[None]:
    """Tell an interrupted fit from one that failed, in whichever form the interruption comes out of a Trainer."""
    try:
        yield
    except SystemExit as end:
        # How a Trainer ends after a signal that nobody waits for: a second Ctrl-C, or one before the first step.
        terminated = isinstance(end, exceptions("SIGTERMException"))
        if terminated or isinstance(end.__context__, KeyboardInterrupt):
            number = signal.SIGTERM if terminated else signal.SIGINT
            raise _interrupted(private.outcome, plan, exit_code=128 + number) from None
        raise
    except RuntimeError as error:
        # A second Ctrl-C that met torch in the middle of something comes out as an error of torch's own, and one that met a
        # Trainer before it had made its loaders as an error of the Trainer's tidying up.
        if private.signals.received is None and not isinstance(
            error.__context__, KeyboardInterrupt
        ):
            raise
        raise _interrupted(private.outcome, plan, exit_code=private.signals.exit_code) from None


def _input_scaling(spec: Spec, splits: Splits) -> InputScaling | None:
    scaling = spec.data.private_scaling
    return None if scaling is None else InputScaling(scaling, splits, spec.data.scaled_features)


def _interrupted(outcome: Outcome | None, plan: Plan, *, exit_code: int) -> Interrupted:
    if outcome is None:
        return Interrupted(
            f"{plan.name}: interrupted. If its run directory holds a ledger: dppipe resume",
            exit_code=exit_code,
        )
    place = f"{outcome.run_dir}: stopped after step {outcome.steps} of {plan.steps}"
    return Interrupted(f"{place}. Go on with: dppipe resume {outcome.run_dir}", exit_code=exit_code)


def _quieten_lightning() -> None:
    """Keep what a Trainer says about devices, workers and tips from between dppipe's own lines."""
    for name in (*NAMES, "lightning_fabric", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning\.pytorch).*")


def build_module(spec: Spec, *, steps: int) -> pl.LightningModule:
    """Build the Lightning module of a spec: the user's own, or an ordinary network with its objective and optimizer."""
    network = make_network(spec.model, input_shape=spec.data.input_shape, outputs=spec.data.outputs)
    own = own_module(network, spec)
    if own is not None:
        return own
    if spec.optimizer is None:
        raise UsageError(
            "optimizer: expected one, as the model is not a LightningModule. Name one, such as `optimizer: sgd`."
        )
    return SpecModule(
        network,
        objective=Objective(spec.data.task, spec.data.outputs),
        optimizer=spec.optimizer,
        steps=steps,
    )


def make_trainer(
    spec: Spec,
    plan: Plan,
    module: pl.LightningModule,
    *,
    most_steps: int,
    callbacks: list[pl.Callback],
    validates: bool,
) -> pl.Trainer:
    """Make a Trainer that only does what the private step allows; the record and the progress bar are dppipe's own."""
    lightning = library(name_of(module) or chosen_name())
    faults: list[type[BaseException]] = [
        *exceptions("MisconfigurationException"),
        RuntimeError,
        ValueError,
    ]
    try:
        trainer: pl.Trainer = lightning.Trainer(
            max_steps=most_steps,
            max_epochs=-1,
            accelerator=spec.performance.accelerator,
            devices=spec.performance.devices,
            precision=spec.train.precision,
            callbacks=callbacks,
            logger=False,
            log_every_n_steps=1,
            enable_checkpointing=False,
            plugins=[DurableCheckpoints(module)],
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            num_nodes=spec.performance.num_nodes,
            strategy=_strategy(spec),
            check_val_every_n_epoch=None,
            val_check_interval=min(spec.train.validate_every or plan.steps_per_epoch, plan.steps),
            limit_val_batches=None if validates else 0,
        )
    except tuple(faults) as error:
        raise UsageError(
            f"performance: expected what this machine can train on, got: {error}"
        ) from error
    return trainer


def _strategy(spec: Spec) -> PrivateDDP | str:
    settings = spec.performance
    several = settings.devices * settings.num_nodes > 1
    return PrivateDDP() if several or settings.strategy == "ddp" else "auto"


def scoring_loader(dataset: Dataset[Any] | None, *, data: Data) -> DataLoader[Any] | None:
    """Give an ordinary loader that scores the usable records of a split in order."""
    return (
        None
        if dataset is None
        else DataLoader(usable_part(dataset, data), batch_size=SCORING_BATCH_SIZE)
    )
