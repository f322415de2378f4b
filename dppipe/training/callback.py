"""The DP callback: the Lightning shell around the private step.

One Lightning batch is one logical step. While a module is fitted, two attributes stand on it: a `training_step` that takes
the private step and a `backward` that writes its gradient, so `.grad` never holds anything that isn't privatised, and LR
schedulers, `global_step` and checkpoints count logical steps. The optimizer and the module's class are untouched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import Dataset

from dppipe.clipping.base import Clipper
from dppipe.clipping.flat import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise.base import NoiseSchedule
from dppipe.noise.constant import Constant
from dppipe.planning.plan import Plan
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.accountants.pld import Pld
from dppipe.privacy.budget import Budget
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.streams import numpy_stream, stream_key
from dppipe.sampling.base import Sampler
from dppipe.training.draws import LogicalBatch, PrivateLoader
from dppipe.training.ledger import Ledger
from dppipe.training.objectives import Objective, objective_of
from dppipe.training.outcome import Outcome
from dppipe.training.patches import Patches
from dppipe.training.refusals import refuse_unsafe_optimizers, refuse_unsafe_trainer
from dppipe.training.run_directory import RunDirectory
from dppipe.training.signals import StopSignals
from dppipe.training.step import PlainStep, PrivateStep


class DPCallback(pl.Callback):
    """Makes a Trainer's fit private, and stops it at the budget.

    Guarantee: every gradient that the optimizer sees was clipped per example, noised and charged before; the step that
    would exceed the budget is refused before it draws a record.
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
    ) -> None:
        super().__init__()
        self.parts = PrivateParts(sampler, clipping or Flat(), noise or Constant(), accountant or Pld(), budget)
        self.name, self.holdout, self.plan = name, holdout, plan
        self.outcome: Outcome | None = None
        self.steps = 0
        """The steps taken in this fit."""
        self._run_dir = Path(run_dir) if run_dir is not None else None
        self._seed, self._checkpoint_every, self._config = reproducible_seed, checkpoint_every, config
        self._loader: PrivateLoader | None = None
        self._running: Running | None = None
        self._gradient: dict[str, Tensor] = {}
        self._patches, self._signals = Patches(), StopSignals()

    def loader(
        self, dataset: Dataset[Any], *, collate: Callable[[list[Any]], Any] | None = None, synthetic: Callable[[int], Any] | None = None
    ) -> PrivateLoader:
        """Give the training loader of a map-style data set: the only one that this callback accepts.

        `synthetic(n)` gives n made-up examples of the data's shapes and types, for the check of the engine; without it, zeros
        and random numbers in the shape of the first example are used.
        """
        self._loader = PrivateLoader(
            dataset, sampler=self.parts.sampler, generator=numpy_stream("sampler", seed=self._seed), collate=collate, synthetic=synthetic
        )
        return self._loader

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuse what would void the guarantee, before anything else happens."""
        if stage == "fit" and self.parts.budget is not None:
            refuse_unsafe_trainer(trainer, pl_module, public_metrics=self.holdout == "public")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Commit to a plan, let the loader draw at its rate, and put the private step on the module."""
        loader = self._own_loader()
        self.plan = self.plan or plan_privacy(
            self.parts, name=self.name, records=loader.records, reproducible=self._seed is not None, **_length_of(trainer)
        )
        loader.arm(rate=self.plan.sample_rate, steps_per_epoch=self.plan.steps_per_epoch)
        self._patches.put(pl_module, "training_step", self._training_step)
        self._patches.put(pl_module, "backward", self._backward)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check the engine on made-up input, then open the run directory and its ledger."""
        if trainer.train_dataloader is not self._loader:
            raise PrivacyRefusal("Trainer.fit: expected the DPCallback's own loader, got another. Make it by callback.loader(dataset).")
        refuse_unsafe_optimizers(trainer)
        self._running = self._start(trainer, pl_module)
        self._signals.listen()

    def _start(self, trainer: pl.Trainer, module: pl.LightningModule) -> Running:
        loader, plan = self._own_loader(), self._own_plan()
        network, per_sample_loss = network_and_loss(module)
        engine = Engine(network, per_sample_loss, self.parts.clipping)
        if plan.private:
            check_engine(engine, loader.synthetic(CHECKED_EXAMPLES))
        loader.physical_batch_size = ...
        record = RunRecord(RunDirectory.create(self.name, run_dir=self._run_dir), plan=plan, config=self._config)
        step = ...
        return Running(trainer, network, record, step)

    def _training_step(self, batch: LogicalBatch, batch_idx: int) -> Tensor:
        running = self._running
        if running is None or not isinstance(batch, LogicalBatch) or batch.loader is not self._loader:
            raise PrivacyRefusal("training_step: expected a batch of the DPCallback's own loader.")
        self._gradient = running.step(batch, place=running.place)
        return torch.zeros((), requires_grad=True)  # the Trainer hands a loss to `backward`; the real one is private

    def _backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        for name, parameter in self._network.named_parameters():
            if name in self._gradient:
                parameter.grad = self._gradient[name].to(parameter.dtype)
        self._gradient = {}

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Record the step and look ahead: the run ends here if the plan holds no further step."""
        self.steps += 1
        record = self._running.record
        record.step(self.steps)
        if self._checkpoint_every and self.steps % self._checkpoint_every == 0:
            record.checkpoint(trainer)
        trainer.should_stop = trainer.should_stop or self.steps >= self._own_plan().steps or bool(self._signals.received)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the validation's metrics to the record."""
        if self._running is not None and not trainer.sanity_checking:
            self._running.record.validation(trainer.callback_metrics, step=self.steps, holdout=self.holdout)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write how the run ended."""
        plan = self._own_plan()
        stopped: Stop | None = None if self.steps >= plan.steps else "interrupted"
        self._finish(stopped)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Write that the run failed: what was charged stays charged."""
        self._finish("interrupted" if isinstance(exception, KeyboardInterrupt) else "failed")

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the module as it was."""
        self._patches.undo()
        self._signals.restore()
        if self._loader is not None:
            self._loader.disarm()
