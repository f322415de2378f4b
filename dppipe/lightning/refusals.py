"""Options, callbacks and optimizers that a Trainer may not have when training is private.

They break the logical step or the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from dppipe.errors import PrivacyRefusal, SpecError, UsageError
from dppipe.lightning.clocks import clock_faults
from dppipe.lightning.metrics.monitors import callback_monitors, private_monitor_fault
from dppipe.lightning.names.namespaces import classes, is_overridden
from dppipe.lightning.strategies import PrivateDDP
from dppipe.optim.known_noise import asks_for_noise
from dppipe.privacy.budget import Relation
from dppipe.runs.metric_names import Holdout
from dppipe.spec.rules.training import unknown_noise

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.planning.parts import PrivateParts

PRECISIONS = ("32-true", "64-true", "bf16-mixed")
_TRANSFER_HOOKS = (
    "on_before_batch_transfer",
    "on_after_batch_transfer",
    "transfer_batch_to_device",
)
_TUNERS = ("BatchSizeFinder", "LearningRateFinder", "GradientAccumulationScheduler")


def refuse_unsafe_trainer(
    trainer: pl.Trainer, module: pl.LightningModule, *, holdout: Holdout, relation: Relation
) -> None:
    """Refuse, all at once, what would void the guarantee; before a record is read."""
    private = holdout == "private"
    faults = [*_step_faults(trainer, module), *_other_faults(trainer, module)]
    if private and relation == "add_remove":
        faults += _share_of_batches(trainer)
    faults += _callbacks(trainer, public_metrics=not private)
    faults += clock_faults(trainer)
    if faults:
        raise PrivacyRefusal("\n".join(f"Trainer: {fault}" for fault in faults))


def refuse_unsafe_optimizers(trainer: pl.Trainer) -> None:
    """Refuse optimizers that a private step can't serve; they are known once training starts."""
    if len(trainer.optimizers) != 1:
        raise PrivacyRefusal(
            f"configure_optimizers: expected one optimizer, got {len(trainer.optimizers)}. "
            "Use one with several groups."
        )
    if type(trainer.optimizers[0]).__name__ == "_MockOptimizer":
        raise UsageError(
            "configure_optimizers: expected an optimizer, got none: nothing would be trained. "
            "Return one."
        )
    if isinstance(trainer.optimizers[0], torch.optim.LBFGS):
        raise PrivacyRefusal(
            "configure_optimizers: LBFGS asks for several gradients a step. "
            "Use a first-order optimizer."
        )


def refuse_unknown_noise(trainer: pl.Trainer, parts: PrivateParts) -> None:
    """Refuse noise that isn't one known number a step beside an optimizer that asks for it."""
    if parts.budget is not None and asks_for_noise(trainer.optimizers[0]):
        name = type(trainer.optimizers[0]).__name__
        found = list(unknown_noise(parts.clipping, parts.noise, optimizer=name))
        if found:
            raise SpecError(found)


def _step_faults(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Yield options that change what a step is, or how many there are."""
    accumulated = trainer.accumulate_grad_batches
    if accumulated != 1:
        yield (
            f"accumulate_grad_batches: expected 1, got {accumulated}. "
            "Set physical_batch_size instead."
        )
    if trainer.gradient_clip_val is not None:
        yield (
            f"gradient_clip_val: expected none, got {trainer.gradient_clip_val}. "
            "Clipping is per example: set clipping."
        )
    if not module.automatic_optimization:
        yield (
            "automatic_optimization: expected True, got False. "
            "The private step needs the Trainer's own loop."
        )
    if trainer.precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        yield (
            f"precision: expected one of {known}, got {trainer.precision}. "
            "Others round noise or skip steps by data."
        )
    if getattr(trainer, "overfit_batches", 0):
        yield "overfit_batches: expected 0. It would replay draws."
    limit = trainer.limit_train_batches
    # 1 is one batch, 1.0 is all of them.
    if limit is not None and (isinstance(limit, int) or limit != 1.0):
        option = "fast_dev_run" if trainer.fast_dev_run else "limit_train_batches"  # type: ignore[attr-defined]
        yield f"{option}: expected no limit on batches, got {limit}. Set max_steps."
    if trainer.min_steps or (trainer.min_epochs or 0) > 1:
        yield "min_steps, min_epochs: expected none. They would go on past the budget."


def _other_faults(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[str]:
    """Yield options and hooks that show private values, mix examples or end a run by a record."""
    if trainer._detect_anomaly or torch.is_anomaly_enabled():
        yield "detect_anomaly: expected False: a record with a NaN gradient would end the run."
    profiler = type(trainer.profiler).__name__  # type: ignore[attr-defined]
    if profiler != "PassThroughProfiler":
        shows = f"{profiler} shows times, counts and shapes of private batches"
        yield f"profiler: expected none: {shows}. Profile a run without a budget."
    for hook in _TRANSFER_HOOKS:
        if is_overridden(hook, module):
            yield (
                f"{hook}: expected the module not to override it: it could mix examples. "
                "Transform in the data set instead."
            )
    if trainer.world_size != 1 and not isinstance(trainer.strategy, PrivateDDP):
        yield (
            "strategy: expected dppipe.PrivateDDP() for several processes, got "
            f"{type(trainer.strategy).__name__}."
        )


def _share_of_batches(trainer: pl.Trainer) -> Iterator[str]:
    limit = trainer.limit_val_batches
    if isinstance(limit, float) and 0 < limit < 1:
        yield (
            "limit_val_batches: expected a number of batches, or all, on a private holdout, got "
            f"{limit}. Whether that share makes a batch depends on how many records there are, "
            "which add_remove protects. Set a number."
        )


def _callbacks(trainer: pl.Trainer, *, public_metrics: bool) -> Iterator[str]:
    tuners: tuple[type, ...] = ()
    for name in _TUNERS:
        tuners += classes(name)
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, tuners):
            yield (
                f"callbacks: {type(callback).__name__} trains outside the budget or breaks the "
                "logical step. Leave it out."
            )
    if not public_metrics:
        for monitor in callback_monitors(trainer):
            yield private_monitor_fault(monitor)
