"""The Trainer of a spec's run: it does only what the private step allows."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError
from dppipe.lightning.checkpoints import DurableCheckpoints
from dppipe.lightning.names.namespaces import NAMES, chosen_name, exceptions, library, name_of
from dppipe.lightning.strategies import PrivateDDP

if TYPE_CHECKING:
    import pytorch_lightning as pl

    from dppipe.planning.step_plan import StepPlan
    from dppipe.spec.spec import Spec


def make_trainer(
    spec: Spec,
    plan: StepPlan,
    module: pl.LightningModule,
    *,
    most_steps: int,
    callbacks: list[pl.Callback],
    validates: bool,
) -> pl.Trainer:
    """Make a Trainer without a record and a progress bar of its own: dppipe has both."""
    lightning = library(name_of(module) or chosen_name())
    validate_every = spec.train.validate_every or plan.steps_per_epoch
    faults: tuple[type[BaseException], ...] = (RuntimeError, ValueError)
    faults += tuple(exceptions("MisconfigurationException"))
    try:
        trainer: pl.Trainer = lightning.Trainer(
            max_steps=most_steps,
            max_epochs=-1,
            callbacks=callbacks,
            plugins=[DurableCheckpoints(module)],
            val_check_interval=min(validate_every, plan.steps),
            limit_val_batches=None if validates else 0,
            **_hardware(spec),
            **_FIXED,
        )
    except faults as error:
        raise UsageError(
            f"performance: expected what this machine can train on, got: {error}"
        ) from error
    return trainer


_FIXED: dict[str, Any] = {
    "check_val_every_n_epoch": None,
    "logger": False,
    "log_every_n_steps": 1,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
    "num_sanity_val_steps": 0,
}
"""Options that are the same for every run."""


def _hardware(spec: Spec) -> dict[str, Any]:
    settings = spec.performance
    distributed = settings.devices * settings.num_nodes > 1 or settings.strategy == "ddp"
    return {
        "accelerator": settings.accelerator,
        "devices": settings.devices,
        "num_nodes": settings.num_nodes,
        "precision": spec.train.precision,
        "strategy": PrivateDDP() if distributed else "auto",
    }


def quieten_lightning() -> None:
    """Silence a Trainer's messages about devices, workers and tips."""
    for name in (*NAMES, "lightning_fabric", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning\.pytorch).*")
