"""The DP callback: the Lightning shell around the private step.

One Lightning batch is one logical step. While a module is fitted, two attributes stand on it: a `training_step` that takes
the private step and a `backward` that writes its gradient, so `.grad` never holds anything that isn't privatised, and LR
schedulers, `global_step` and checkpoints count logical steps. The optimizer and the module's class are untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from dppipe.clipping.base import Clipper
from dppipe.clipping.flat import Flat
from dppipe.component import Component
from dppipe.data.reading.map_style import require_map_style
from dppipe.engine.tape.lazy_layers import refuse_lazy_layers
from dppipe.errors import DppipeError, PrivacyRefusal
from dppipe.learners.private_scaling import InputScaling
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader, refuse_foreign_batch
from dppipe.learners.records.user_index import user_index
from dppipe.lightning.bases import Callback
from dppipe.lightning.beginning import RunOptions, begin_fit, open_model, plan_fit
from dppipe.lightning.fit import Fit
from dppipe.lightning.isolation.holdout import PrivateHoldout
from dppipe.lightning.isolation.private_model import PlainModel, PrivateModel
from dppipe.lightning.metrics.provenance import Provenance
from dppipe.lightning.metrics.validation_progress import forget_validation
from dppipe.lightning.namespaces import exceptions
from dppipe.lightning.patches import Patches
from dppipe.lightning.refusals import refuse_unsafe_optimizers, refuse_unsafe_trainer
from dppipe.lightning.signals import StopSignals
from dppipe.lightning.starting_weights import StartingWeights
from dppipe.noise.base import NoiseSchedule
from dppipe.noise.constant import Constant
from dppipe.optim.averaging.base import Averaging
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.directory import RunDirectory
from dppipe.runs.metric_names import learning_rates
from dppipe.runs.outcome import Outcome, Stop
from dppipe.sampling.base import Sampler

if TYPE_CHECKING:
    import pytorch_lightning as pl


class DPCallback(Callback):
    """Makes a Trainer's fit private, and stops it at the budget.

    Guarantee: every gradient that the optimizer sees was clipped, noised and charged; no step that would exceed the budget draws.
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
        plan: Plan | None = None,
        config: str | None = None,
        data: Component | None = None,
        resume: RunDirectory | None = None,
        averaging: Averaging | None = None,
        scaling: InputScaling | None = None,
    ) -> None:
        super().__init__()
        chosen = sampler, clipping or Flat(), noise or Constant(), accountant or Pld(), budget
        self.parts = PrivateParts(*chosen, scaling=scaling.scaling if scaling is not None else None)
        self.holdout, self.plan = holdout, plan
        place = Path(run_dir) if run_dir is not None else None
        extras: dict[str, Any] = {
            "config": config,
            "data": data,
            "resume": resume,
            "averaging": averaging,
            "scaling": scaling,
        }
        self._options = RunOptions(name, place, holdout, reproducible_seed, **extras)
        self.outcome: Outcome | None = None
        self.steps = 0  # updates so far
        self._checkpoint_every = checkpoint_every
        self._restored: dict[str, Any] = {}
        self._start = StartingWeights(resume, private=budget is not None)
        self._loader: PrivateLoader | None = None
        self._fit: Fit | None = None
        self._trainer, self._holdout = None, None  # type: tuple[pl.Trainer | None, PrivateHoldout | None]
        self._patches, self.signals, self._ranks = Patches(), StopSignals(), Ranks()
        self._provenance = Provenance(holdout=holdout, private=budget is not None)

    def loader(
        self,
        dataset: Dataset[Any],
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        synthetic: Callable[[int], Any] | None = None,
        ranges: Any = None,
    ) -> PrivateLoader:
        """Return the training loader of a map-style data set: the only one that this callback accepts.

        A record that can't be read, collated or evaluated contributes nothing, and ends nothing.

        Args:
            dataset: Its length is the number of records; for `User` sampling its `users` says whose each record is.
            collate: Makes a batch of a list that holds one example, where torch's own way won't do. Rows of one shape are
                then stacked; to have long and short rows in one batch, pad each to a length that is a public constant.
            synthetic: Makes a batch of n made-up examples that differ in every number, for the checks before the first
                step; without it they take the shape of the first example.
            ranges: In the structure of an example, a `range` for each integer that has one, such as `(None, range(10))` or
                `{"input_ids": range(30000)}`. A record outside contributes nothing; a GPU couldn't recover from its index.
        """
        require_map_style(dataset, place="loader")
        sampler = self.parts.sampler
        users = None
        if sampler.records_per_unit is not None:
            users = user_index(dataset, at_most=sampler.records_per_unit)
        self._loader = PrivateLoader(
            dataset,
            sampler=sampler,
            collate=collate,
            synthetic=synthetic,
            ranges=ranges,
            users=users,
        )
        return self._loader

    # The hooks, in the order in which a Trainer calls them.

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse what would void the guarantee, before anything else happens."""
        if stage == "fit":
            refuse_lazy_layers(pl_module)
            self._start.refuse_second_fit()
        if stage == "fit" and self.parts.budget is not None:
            refuse_unsafe_trainer(
                trainer, pl_module, holdout=self.holdout, relation=self.parts.budget.relation
            )

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Commit to a plan, let the loader draw at its rate, and put the private step on the module."""
        if self._loader is None:
            raise PrivacyRefusal(
                "Trainer.fit: expected the DPCallback's own loader. Make it by callback.loader(dataset)."
            )
        self._start.refuse_foreign_checkpoint(trainer)
        self._provenance.begin(trainer, pl_module)
        if self.plan is None:
            self.plan = plan_fit(trainer, self.parts, self._options, self._loader)
        self._trainer = trainer
        self._ranks = Ranks(trainer.global_rank, trainer.world_size)
        stream = Keystream(self._ranks.agree(stream_key("sampler", seed=self._options.seed)))
        self._loader.arm(self.plan, stream=stream, ranks=self._ranks)
        self._patches.put(pl_module, "training_step", self._training_step)
        self._patches.put(pl_module, "backward", self._backward)

    def on_sanity_check_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Guard the fit against records of a private holdout."""
        if self._holdout is None and self.parts.budget is not None and self.holdout == "private":
            self._holdout = PrivateHoldout(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Listen to signals from now on, and refuse what only the start of training shows."""
        if (
            trainer.train_dataloader is not self._loader
            or self._loader is None
            or self.plan is None
        ):
            raise PrivacyRefusal(
                "Trainer.fit: expected the DPCallback's own loader, got another. Make it by callback.loader(dataset)."
            )
        # A Trainer's own handler talks to the other ranks, whatever they wait for, and ends the run without a checkpoint.
        self.signals.listen(terminated=trainer.received_sigterm)
        refuse_unsafe_optimizers(trainer)
        self._provenance.refuse_unlogged(trainer, resumed=bool(self._restored))
        self.on_sanity_check_start(trainer, pl_module)
        # The first step begins the run, after all hooks of the module; a resumed run may be at its end.
        stopped = self._ranks.any(self.signals.received is not None)
        if stopped or self._options.resume is not None:
            self._fit = self._begin(
                trainer, open_model(trainer, self.parts, self._loader, self._options)
            )
            trainer.should_stop = stopped or not self._fit.step.goes_on()

    def _training_step(self, batch: LogicalBatch, batch_idx: int) -> Tensor:
        refuse_foreign_batch(batch, self._loader)
        fit = self._fit = self._rehearsed()
        self._start.mark(fit.trainer.lightning_module)
        with fit.model.sealed():
            fit.gradient = fit.step(batch, place=fit.place)
        fit.model.stand_in()
        return torch.zeros(
            (), requires_grad=True
        )  # the Trainer hands a loss to `backward`; the real one is private

    def _rehearsed(self) -> Fit:
        """Return the fit under way; before its first step user code is tried on made-up rows."""
        if self._fit is not None and self._fit.rehearsed:
            return self._fit
        if self._trainer is None or self._loader is None or self.plan is None:
            raise PrivacyRefusal(
                "training_step: expected to be called by the Trainer whose callback this is."
            )
        model = (
            self._fit.model
            if self._fit is not None
            else open_model(self._trainer, self.parts, self._loader, self._options)
        )
        model.rehearse(
            self._loader,
            self.plan,
            place=self._trainer.strategy.batch_to_device,
            holdout=self._holdout,
        )
        fit = self._fit or self._begin(self._trainer, model)
        fit.rehearsed = True
        return fit

    def _begin(self, trainer: pl.Trainer, model: PrivateModel | PlainModel) -> Fit:
        if self.plan is None:
            raise PrivacyRefusal("Trainer.fit: expected a plan before the first step.")
        given = (trainer, model, self.parts, self.plan, self._options)
        fit = begin_fit(*given, ranks=self._ranks, start=self._start, restored=self._restored)
        self._provenance.show = fit.show
        return fit

    def _backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        if (fit := self._fit) is None:
            raise PrivacyRefusal("backward: expected a private step before it.")
        for name, parameter in fit.model.network.named_parameters():
            if name in fit.gradient and parameter.requires_grad:  # a hook may have frozen it
                parameter.grad = fit.gradient[name].to(parameter.dtype)
        fit.gradient = {}
        fit.learning_rates = learning_rates(
            fit.trainer.optimizers[0]
        )  # a scheduler acts before the step is recorded

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Record the step and look ahead: the run ends here if the plan holds no further step, or if a signal came."""
        if self._fit is None:
            return
        self.steps += 1
        self._fit.note_step(self.steps)
        if self._checkpoint_every and self.steps % self._checkpoint_every == 0:
            self._fit.record.checkpoint(trainer)
        if not self._fit.step.goes_on() or self._ranks.any(self.signals.received is not None):
            trainer.should_stop = True

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validate the mean of the weights, where there is one."""
        if self._fit is not None:
            self._fit.swap_weights()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the optimizer's own weights back, and record the metrics."""
        if self._fit is not None:
            self._fit.swap_weights()
            self._fit.record.validation(
                self._provenance.metrics, step=self._fit.step.taken, holdout=self.holdout
            )

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Let the hooks of a resumed run find what a step keeps, if no step was taken yet."""
        if self._fit is not None and not self._fit.rehearsed:
            self._rehearsed().model.stand_in()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write how the run ended; an interrupted run goes on from the checkpoint."""
        if self._fit is not None and self.plan is not None:
            self._fit.record.checkpoint(trainer)
            signalled = self._ranks.any(self.signals.received is not None)
            self._finish(self._fit.stop(signalled=signalled))

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Write that the run failed, where that can be written: what was charged stays charged."""
        self._start.mark_refused(trainer, pl_module)
        stops: tuple[type[BaseException], ...] = (
            KeyboardInterrupt,
            *exceptions("SIGTERMException"),
        )
        with suppress(DppipeError):  # the first error is the one to tell
            self._finish("interrupted" if isinstance(exception, stops) else "failed")
        self._leave()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the module as it was."""
        self._leave()

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save buffers and frozen parameters as they were at the start, and not how many records were validated."""
        forget_validation(checkpoint)
        if self._fit is not None:
            self._fit.model.clean(checkpoint["state_dict"])

    def state_dict(self) -> dict[str, Any]:
        """Give what a checkpoint holds: plain values, and no key or state of a generator."""
        return {"steps": self.steps, **self._start.state()} | (
            self._fit.state() if self._fit is not None else {}
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what a checkpoint holds."""
        self._start.restore(state_dict)
        self._restored, self.steps = state_dict, state_dict["steps"]

    def _finish(self, stopped: Stop | None) -> None:
        if self._fit is not None:
            fit, self._fit = self._fit, None
            with fit.model.engine, nullcontext() if fit.average is None else fit.average.in_place():
                # What stands on the user's module is taken off, whatever the record meets with.
                piece = self._loader.physical_batch_size if self._loader is not None else None
                facts = {"physical_batch_size": piece, **fit.facts()}
                state = fit.model.state_dict()
                self.outcome = fit.record.finish(
                    state, stopped=stopped, steps=self.steps, start=self._start.hashes, **facts
                )

    def _leave(self) -> None:
        if self._holdout is not None:
            self._holdout.undo()
            self._holdout = None
        self._provenance.end()
        self._patches.undo()
        self.signals.restore()
        self._trainer = None
        if self._loader is not None:
            self._loader.disarm()
