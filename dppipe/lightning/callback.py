"""The DP callback: the hooks by which a Trainer runs a private training.

One Lightning batch is one logical step. Read next: `private_training.py`, which does what these
hooks do to the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import Dataset

from dppipe.clipping.base import Clipper
from dppipe.clipping.flat import Flat
from dppipe.component import Component
from dppipe.data.reading.map_style import require_map_style
from dppipe.engine.tape.lazy_layers import refuse_lazy_layers
from dppipe.errors import DppipeError
from dppipe.learners.inputs.model_inputs import ModelInputs
from dppipe.learners.records.loader import PrivateLoader
from dppipe.learners.records.unit_index import make_unit_index
from dppipe.learners.sgd.canaries import Canaries
from dppipe.lightning.beginning import RunOptions
from dppipe.lightning.metrics.privacy_logs import PrivacyLogs
from dppipe.lightning.metrics.validation_progress import forget_validation
from dppipe.lightning.names.bases import Callback
from dppipe.lightning.names.namespaces import exceptions
from dppipe.lightning.private_training import PrivateTraining
from dppipe.lightning.refusals import refuse_unsafe_trainer
from dppipe.noise.base import NoiseSchedule
from dppipe.noise.constant import Constant
from dppipe.optim.averaging.base import Averaging
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.planning.step_plan import StepPlan
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.runs.directory import RunDirectory
from dppipe.runs.outcome import Outcome, Stop
from dppipe.runs.showing.closing import closing_text
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import pytorch_lightning as pl


class DPCallback(Callback):
    """Makes a Trainer's fit private, and stops it at the budget.

    Guarantees:
    - Every gradient that the optimizer sees was clipped, noised and charged.
    - No step that would exceed the budget draws a record.

    Example: with a LightningModule `module` and a map-style `dataset` of your own:

        >>> import pytorch_lightning as pl
        >>> from dppipe import Budget, DPCallback
        >>> from dppipe.sampling import Poisson
        >>> budget = Budget(epsilon=3.0, delta=1e-5)
        >>> sampler = Poisson(sample_rate=0.1)
        >>> private = DPCallback(sampler=sampler, budget=budget, run_dir="mine", summary=False)
        >>> pl.Trainer(max_steps=10, callbacks=[private]).fit(module, private.loader(dataset))
        >>> private.outcome.epsilon <= 3.0
        True
    """

    def __init__(
        self,
        *,
        sampler: Sampler,
        budget: Budget | None,
        clipping: Clipper | None = None,
        noise: NoiseSchedule | None = None,
        accountant: Accountant | None = None,
        run_dir: Path | str | None = None,
        name: str = "run",
        holdout: Literal["public", "private"] = "private",
        reproducible_seed: int | None = None,
        checkpoint_every: int | None = None,
        plan: StepPlan | None = None,
        config: str | None = None,
        data: Component | None = None,
        resume: RunDirectory | None = None,
        averaging: Averaging | None = None,
        inputs: ModelInputs | None = None,
        summary: bool = True,
        canaries: Canaries | None = None,
    ) -> None:
        """Take the parts of a private run; the repository's docs/callback.md describes each.

        Args:
            summary: Whether the first process prints how the run ended, as `dppipe run` does.
        """
        super().__init__()
        self.parts = PrivateParts(
            sampler=sampler,
            clipping=clipping or Flat(),
            noise=noise or Constant(),
            accountant=accountant or Pld(),
            budget=budget,
            preludes=() if inputs is None else inputs.preludes,
        )
        options = RunOptions(
            name=name,
            run_dir=Path(run_dir) if run_dir is not None else None,
            holdout=holdout,
            seed=reproducible_seed,
            config=config,
            data=data,
            resume=resume,
            averaging=averaging,
            inputs=inputs,
            canaries=canaries,
        )
        self.holdout = holdout
        self.outcome: Outcome | None = None
        self.steps = 0
        """How many updates were made."""
        self._checkpoint_every = checkpoint_every
        self._summary = summary
        self._logs = PrivacyLogs()
        self._training = PrivateTraining(self.parts, options, plan=plan)
        self.signals = self._training.signals

    @property
    def plan(self) -> StepPlan | None:
        """The plan of the run; None until the fit starts, unless one was given."""
        return self._training.plan

    def loader(
        self,
        dataset: Dataset[Any],
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        synthetic: Callable[[int], Any] | None = None,
        ranges: Any = None,
    ) -> PrivateLoader:
        """Return the training loader of a map-style dataset: the callback accepts no other.

        A record that can't be read, collated or evaluated contributes nothing, and ends nothing.

        Args:
            dataset: Its length is the number of records. For `User` sampling its `users` names the
                user of each record.
            collate: Makes a batch of a list with one example, where torch's default fails.
                Rows of one shape are then stacked. To have long and short rows in one batch, pad
                each to a length that is a public constant.
            synthetic: Makes a batch of n made-up examples that differ in every number, for the
                checks before the first step. Without it they take the shape of the first example.
            ranges: In the structure of an example, a `range` for each integer that has one, such as
                `(None, range(10))` or `{"input_ids": range(30000)}`. A record outside contributes
                nothing; a GPU couldn't recover from its index.
        """
        require_map_style(dataset, place="loader")
        sampler = self.parts.sampler
        loader = PrivateLoader(
            dataset,
            sampler=sampler,
            collate=collate,
            synthetic=synthetic,
            ranges=ranges,
            index=make_unit_index(dataset, records_per_user=sampler.records_per_user),
        )
        self._training.loader = loader
        return loader

    # The hooks, in the order in which a Trainer calls them.

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse what would void the guarantee, before anything else happens."""
        if stage != "fit":
            return
        refuse_lazy_layers(pl_module)
        self._training.start.refuse_second_fit()
        budget = self.parts.budget
        if budget is not None:
            refuse_unsafe_trainer(
                trainer, pl_module, holdout=self.holdout, relation=budget.relation
            )

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Commit to a plan, and put the private step on the module."""
        self._training.attach(trainer, pl_module)

    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Guard the fit against the records of a private holdout."""
        self._training.guard_holdout(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to signals from now on, and refuse what only the start of training shows."""
        self._training.start_training(trainer, pl_module)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Record the step; end the run if no further step is allowed, or if a signal came."""
        fit = self._training.fit
        if fit is None:
            return
        self.steps += 1
        fit.note_step(self.steps)
        self._logs.step(trainer, fit, self._training.provenance)
        if self._checkpoint_every and self.steps % self._checkpoint_every == 0:
            fit.record.checkpoint(trainer)
        signalled = self._training.signalled()  # every process asks, whatever else it knows
        if signalled or not fit.step.goes_on():
            trainer.should_stop = True

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validate the mean of the weights, where there is one."""
        if self._training.fit is not None:
            self._training.fit.swap_weights()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the optimizer's own weights back, and record the metrics."""
        fit = self._training.fit
        if fit is not None:
            fit.swap_weights()
            metrics = self._training.provenance.metrics
            fit.record.validation(metrics, step=fit.step.taken, holdout=self.holdout)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let the hooks of a resumed run find what a step keeps, if no step was taken yet."""
        fit = self._training.fit
        if fit is not None and not fit.rehearsed:
            self._training.rehearsed().model.show_made_up_example()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write how the run ended; an interrupted run goes on from the checkpoint."""
        fit = self._training.fit
        if fit is not None:
            self._logs.flush(trainer, self._training.provenance)
            fit.record.checkpoint(trainer)
            self._finish(fit.stop(signalled=self._training.signalled()))

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Write that the run failed, where that can be written: what was charged stays charged."""
        self._training.start.mark_refused(trainer, pl_module)
        terminated = isinstance(exception, exceptions("SIGTERMException"))
        interrupted = terminated or isinstance(exception, KeyboardInterrupt)
        with suppress(DppipeError):  # the first error is the one to show
            self._finish("interrupted" if interrupted else "failed")
        self._training.detach()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the module as it was, and print how the run ended."""
        self._training.detach()
        if self._summary and self.outcome is not None:
            # After the progress bar has ended; a closed terminal ends no run.
            with suppress(OSError, ValueError):
                sys.stdout.write(f"{closing_text(self.outcome)}\n")
                sys.stdout.flush()

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save buffers and frozen parameters as at the start, and no count of validated records."""
        forget_validation(checkpoint)
        if self._training.fit is not None:
            self._training.fit.model.clean(checkpoint["state_dict"])

    def state_dict(self) -> dict[str, Any]:
        """Return the callback's part of a checkpoint: plain values, no key or generator state."""
        state = {"steps": self.steps, **self._training.start.state()}
        if self._training.fit is not None:
            state |= self._training.fit.state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the callback's part of a checkpoint."""
        self._training.start.restore(state_dict)
        self._training.restored = state_dict
        self.steps = state_dict["steps"]

    def _finish(self, stopped: Stop | None) -> None:
        outcome = self._training.finish(stopped, steps=self.steps)
        if outcome is not None:
            self.outcome = outcome
