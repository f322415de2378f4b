"""What a Trainer may not be told when training is private: options and callbacks that break the logical step or the guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from dppipe.errors import PrivacyRefusal
from dppipe.training.namespaces import classes, is_overridden
from dppipe.training.strategies import PrivateDDP

if TYPE_CHECKING:
    import pytorch_lightning as pl

PRECISIONS = ("32-true", "64-true", "bf16-mixed")


def refuse_unsafe_trainer(trainer: pl.Trainer, module: pl.LightningModule, *, public_metrics: bool) -> None:
    """Refuse, all at once, what would void the guarantee; before a record is read."""
    faults = [*_options(trainer, module), *_callbacks(trainer, public_metrics=public_metrics)]
    if faults:
        raise PrivacyRefusal("\n".join(f"Trainer: {fault}" for fault in faults))


def refuse_unsafe_optimizers(trainer: pl.Trainer) -> None:
    """Refuse optimizers that a private step can't serve; known only once training starts."""
    if len(trainer.optimizers) != 1:
        raise PrivacyRefusal(
            f"configure_optimizers: expected one optimizer, got {len(trainer.optimizers)}. Use one with several groups."
        )
    if isinstance(trainer.optimizers[0], torch.optim.LBFGS):
        raise PrivacyRefusal("configure_optimizers: LBFGS asks for several gradients a step. Use a first-order optimizer.")


def _options(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    if trainer.accumulate_grad_batches != 1:
        yield f"accumulate_grad_batches: expected 1, got {trainer.accumulate_grad_batches}. Set physical_batch_size instead."
    if trainer.gradient_clip_val is not None:
        yield f"gradient_clip_val: expected none, got {trainer.gradient_clip_val}. Clipping is per example: set clipping."
    if not module.automatic_optimization:
        yield "automatic_optimization: expected True, got False. The private step needs the Trainer's own loop."
    if trainer.precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        yield f"precision: expected one of {known}, got {trainer.precision}. Others round noise or skip steps by data."
    if getattr(trainer, "overfit_batches", 0):
        yield "overfit_batches: expected 0. It would replay draws."
    if trainer.limit_train_batches not in (None, 1.0):
        yield f"limit_train_batches: expected no limit, got {trainer.limit_train_batches}. Set max_steps."
    if trainer.min_steps or (trainer.min_epochs or 0) > 1:
        yield "min_steps, min_epochs: expected none. They would go on past the budget."
    for hook in ("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device"):
        if is_overridden(hook, module):
            yield f"{hook}: expected the module not to override it: it could mix examples. Transform in the data set instead."
    if trainer.world_size != 1 and not isinstance(trainer.strategy, PrivateDDP):
        yield f"strategy: expected dppipe.PrivateDDP() for several processes, got {type(trainer.strategy).__name__}."


def _callbacks(trainer: pl.Trainer, *, public_metrics: bool) -> Iterator[str]:
    tuners = classes("BatchSizeFinder") + classes("LearningRateFinder") + classes("GradientAccumulationScheduler")
    choosers = classes("EarlyStopping") + classes("ModelCheckpoint")
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        name = type(callback).__name__
        if isinstance(callback, tuners):
            yield f"callbacks: {name} trains outside the budget or breaks the logical step. Leave it out."
        if isinstance(callback, choosers) and callback.monitor is not None and not public_metrics:
            chooses = f"{name} chooses by {callback.monitor!r}, a metric of private records"
            yield f"callbacks: {chooses}. Declare the holdout public, or leave it out."
