"""One private training: from the plan to the outcome, with the module's own code kept apart.

While a module is fitted, two of its attributes are replaced: `training_step` takes the private step
and `backward` writes its gradient. So `.grad` contains only privatised values, and
learning-rate schedulers, `global_step` and checkpoints count logical steps. The optimizer and the
module's class are untouched. Read next: `beginning.py`, then `dppipe/learners/sgd/step.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.errors import PrivacyRefusal
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader, refuse_foreign_batch
from dppipe.lightning.beginning import RunOptions, begin_fit, open_model, plan_fit
from dppipe.lightning.fit import Fit
from dppipe.lightning.isolation.holdout import PrivateHoldout
from dppipe.lightning.isolation.private_model import PlainModel, PrivateModel
from dppipe.lightning.metrics.provenance import Provenance
from dppipe.lightning.patches import Patches
from dppipe.lightning.refusals import refuse_unknown_noise, refuse_unsafe_optimizers
from dppipe.lightning.signals import StopSignals
from dppipe.lightning.starting_weights import StartingWeights
from dppipe.optim.known_noise import tell_noise
from dppipe.planning.privacy_plan import PrivateParts
from dppipe.planning.step_plan import StepPlan
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.metric_names import learning_rates
from dppipe.runs.outcome import Outcome, Stop

if TYPE_CHECKING:
    import pytorch_lightning as pl


class PrivateTraining:
    """The training of one module by one callback.

    Guarantee: every gradient that `backward` writes was clipped, noised and charged.
    """

    def __init__(self, parts: PrivateParts, options: RunOptions, *, plan: StepPlan | None) -> None:
        private = parts.budget is not None
        self.parts = parts
        self.options = options
        self.plan = plan
        self.start = StartingWeights(options.resume, private=private)
        self.provenance = Provenance(holdout=options.holdout, private=private)
        self.loader: PrivateLoader | None = None
        self.fit: Fit | None = None
        """The fit under way; None before the first step and after the last."""
        self.ranks = Ranks()
        self.signals = StopSignals()
        self.restored: dict[str, Any] = {}
        """The callback's state in a checkpoint; empty where there is none."""
        self._trainer: pl.Trainer | None = None
        self._holdout: PrivateHoldout | None = None
        self._patches = Patches()

    def attach(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Commit to a plan, let the loader draw by it, and put the private step on the module."""
        if self.loader is None:
            raise PrivacyRefusal(
                "Trainer.fit: expected the DPCallback's own loader. "
                "Make it by callback.loader(dataset)."
            )
        self.start.refuse_foreign_checkpoint(trainer)
        self.provenance.begin(trainer, module)
        if self.plan is None:
            self.plan = plan_fit(trainer, self.parts, self.options, self.loader)
        self._trainer = trainer
        self.ranks = Ranks(trainer.global_rank, trainer.world_size)
        key = self.ranks.agree(stream_key("sampler", seed=self.options.seed))
        self.loader.arm(self.plan, stream=Keystream(key), ranks=self.ranks)
        if self.options.canaries is not None:
            self.loader.plant(self.options.canaries.number)
        self._patches.put(module, "training_step", self.training_step)
        self._patches.put(module, "backward", self.backward)

    def guard_holdout(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Guard the fit against the records of a private holdout."""
        hidden = self.parts.budget is not None and self.options.holdout == "private"
        if hidden and self._holdout is None:
            self._holdout = PrivateHoldout(trainer, module)

    def start_training(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Listen to signals from now on, and refuse what only the start of training shows."""
        loader = self.loader
        is_own = trainer.train_dataloader is loader
        if loader is None or self.plan is None or not is_own:
            raise PrivacyRefusal(
                "Trainer.fit: expected the DPCallback's own loader, got another. "
                "Make it by callback.loader(dataset)."
            )
        # A Trainer's own handler talks to the other ranks, whatever they wait for, and ends the run
        # without a checkpoint.
        self.signals.listen(terminated=trainer.received_sigterm)
        refuse_unsafe_optimizers(trainer)
        refuse_unknown_noise(trainer, self.parts)
        self.provenance.refuse_unlogged(trainer, resumed=bool(self.restored))
        self.guard_holdout(trainer, module)
        # The first step begins the run, after all hooks of the module. A run that is resumed, or
        # that a signal stops by now, begins here: it may take no step.
        stopped = self.signalled()
        if stopped or self.options.resume is not None:
            self.fit = self._begin(trainer, self._model(trainer, loader))
            trainer.should_stop = stopped or not self.fit.step.goes_on()

    def signalled(self) -> bool:
        """Return whether a signal to stop came on any rank."""
        return self.ranks.any(self.signals.received is not None)

    def training_step(self, batch: LogicalBatch, batch_idx: int) -> Tensor:
        """Take the private step; `backward` writes its gradient."""
        refuse_foreign_batch(batch, self.loader)
        fit = self.fit = self.rehearsed()
        self.start.mark(fit.trainer.lightning_module)
        with fit.model.isolated():
            fit.gradient = fit.step(batch, place=fit.place)
        fit.model.show_made_up_example()
        # The Trainer hands a loss to `backward`; the real one is private.
        return torch.zeros((), requires_grad=True)

    def rehearsed(self) -> Fit:
        """Return the fit under way; before its first step user code is tried on made-up rows."""
        if self.fit is not None and self.fit.rehearsed:
            return self.fit
        trainer = self._trainer
        if trainer is None or self.loader is None or self.plan is None:
            raise PrivacyRefusal(
                "training_step: expected to be called by the Trainer whose callback this is."
            )
        model = self._model(trainer, self.loader)
        to_device = trainer.strategy.batch_to_device
        model.rehearse(self.loader, self.plan, place=to_device, holdout=self._holdout)
        fit = self.fit or self._begin(trainer, model)
        fit.rehearsed = True
        return fit

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Write the private gradient; `loss` is a placeholder."""
        fit = self.fit
        if fit is None:
            raise PrivacyRefusal("backward: expected a private step before it.")
        for name, parameter in fit.model.network.named_parameters():
            if name in fit.gradient and parameter.requires_grad:  # a hook may have frozen it
                parameter.grad = fit.gradient[name].to(parameter.dtype)
        fit.gradient = {}
        tell_noise(fit.trainer.optimizers[0], fit.step.noise_std)
        # Noted here: a scheduler changes them before the step is recorded.
        fit.learning_rates = learning_rates(fit.trainer.optimizers[0])

    def finish(self, stopped: Stop | None, *, steps: int) -> Outcome | None:
        """Write how the run ended; None if there is nothing to write, or another rank writes it."""
        fit = self.fit
        if fit is None:
            return None
        self.fit = None
        if self.options.canaries is not None:
            self.options.canaries.end()
        averaged = fit.average.in_place() if fit.average is not None else nullcontext()
        # The engine's hooks come off the module whatever goes wrong in writing.
        with fit.model.engine, averaged:
            physical = self.loader.physical_batch_size if self.loader is not None else None
            return fit.record.finish(
                fit.model.state_dict(),
                stopped=stopped,
                steps=steps,
                start=self.start.hashes,
                physical_batch_size=physical,
                **fit.facts(),
            )

    def detach(self) -> None:
        """Leave the module, the Trainer and the loader as they were."""
        if self._holdout is not None:
            self._holdout.undo()
            self._holdout = None
        self.provenance.end()
        self._patches.undo()
        self.signals.restore()
        self._trainer = None
        if self.loader is not None:
            self.loader.disarm()

    def _model(self, trainer: pl.Trainer, loader: PrivateLoader) -> PrivateModel | PlainModel:
        if self.fit is not None:
            return self.fit.model
        return open_model(trainer, self.parts, loader, self.options)

    def _begin(self, trainer: pl.Trainer, model: PrivateModel | PlainModel) -> Fit:
        if self.plan is None:
            raise PrivacyRefusal("Trainer.fit: expected a plan before the first step.")
        fit = begin_fit(
            trainer,
            model,
            self.parts,
            self.plan,
            self.options,
            ranks=self.ranks,
            start=self.start,
            restored=self.restored,
        )
        self.provenance.show = fit.show
        if self.loader is not None:
            self.loader.may_draw = fit.may_draw
        return fit
