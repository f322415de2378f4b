"""Callbacks and learning-rate schedulers that follow a metric, and what they may follow.

A metric of a private holdout is no part of the guarantee, and training metrics are muted. So only
what validation logs on a public holdout can be followed. `provenance.py` makes sure of that: the
others never reach a callback or scheduler. The refusals here come before anything is charged, so
that no run ends later over a metric that isn't there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.lightning.patches import Patches

if TYPE_CHECKING:
    import pytorch_lightning as pl

CLOCK_FACTS = ("epoch", "step")
"""What a ModelCheckpoint can rank by that is no metric."""


@dataclass(frozen=True)
class Monitor:
    """A callback or scheduler that follows a metric."""

    who: str
    metric: str


def callback_monitors(trainer: pl.Trainer) -> Iterator[Monitor]:
    """Yield the callbacks that follow a metric: all that have a `monitor`, whatever their class."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        metric = getattr(callback, "monitor", None)
        ranks_by_clock = hasattr(callback, "save_top_k") and metric in CLOCK_FACTS
        if metric is not None and not ranks_by_clock:
            yield Monitor(f"callbacks: {type(callback).__name__}", str(metric))


def scheduler_monitors(trainer: pl.Trainer) -> Iterator[Monitor]:
    """Yield the learning-rate schedulers that follow a metric, such as ReduceLROnPlateau."""
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau:
            who = f"configure_optimizers: {type(config.scheduler).__name__}"
            yield Monitor(who, str(config.monitor))


def private_monitor_fault(monitor: Monitor) -> str:
    """Return why a monitor is refused where the holdout is private."""
    return (
        f"{monitor.who} follows {monitor.metric!r}, a metric of private records. "
        "Declare the holdout public if it is, or leave it out."
    )


def admit_monitors(trainer: pl.Trainer, patches: Patches, *, public_metrics: bool) -> None:
    """Refuse schedulers that follow private metrics; let others see their metric before training.

    Where anyone follows a metric, validation is rehearsed on a batch before training, as a
    Trainer does by default. A scheduler then waits for its metric instead of ending the run.
    """
    schedulers = list(scheduler_monitors(trainer))
    if not public_metrics:
        if schedulers:
            raise PrivacyRefusal("\n".join(private_monitor_fault(each) for each in schedulers))
        return
    if (schedulers or any(callback_monitors(trainer))) and not trainer.num_sanity_val_steps:
        patches.put(trainer, "num_sanity_val_steps", 1)
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau:
            patches.put(config, "strict", False)


def refuse_unlogged_monitors(trainer: pl.Trainer) -> None:
    """Refuse monitors of a metric that validation didn't log when it was rehearsed."""
    known = _logged_in_validation(trainer)
    shown = ", ".join(sorted(known))
    faults: list[str] = []
    for monitor in (*callback_monitors(trainer), *scheduler_monitors(trainer)):
        if monitor.metric not in known:
            faults.append(
                f"{monitor.who}: expected a metric that validation logs, as training metrics are "
                f"muted, got {monitor.metric!r}. Validation logs: {shown or 'none'}."
            )
    if faults:
        raise PrivacyRefusal("\n".join(faults))


def _logged_in_validation(trainer: pl.Trainer) -> set[str]:
    results = trainer.fit_loop.epoch_loop.val_loop._results
    names: set[str] = set()
    for metric in results.result_metrics:
        if metric.meta.on_epoch:
            names.update(results._forked_name(metric, False))
    return names
