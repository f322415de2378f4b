"""A LightningModule and datasets of a user's own, fitted with the callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dppipe
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson, User

STEPS = 6


class Mine(pl.LightningModule):
    """An ordinary module with an ordinary mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        inputs, targets = batch
        return nn.functional.cross_entropy(self.layer(inputs), targets)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        inputs, targets = batch
        self.log("val_loss", nn.functional.cross_entropy(self.layer(inputs), targets))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Visits(TensorDataset):
    """Records that say whose they are."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(120, 5, generator=generator)
        super().__init__(inputs, torch.randint(3, (120,), generator=generator))
        self.users = [f"p{row % 40}" for row in range(120)]


class StopsAt(pl.Callback):
    """Stops a Trainer after some steps, as EarlyStopping does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        if trainer.global_step == self.step:
            trainer.should_stop = True


def fit_module(
    path: Path,
    *,
    holdout: Literal["public", "private"],
    validates: bool,
    users: bool = False,
    stops_at: int | None = None,
) -> dict[str, Any]:
    """Fit a module privately, and return what is known of the run beside its files."""
    sampler = User(sample_rate=0.2, max_records_per_user=3) if users else Poisson(sample_rate=0.1)
    budget = dppipe.Budget(epsilon=8.0, delta=1e-4)
    callback = dppipe.DPCallback(
        sampler=sampler,
        noise=Constant(noise_multiplier=2.0),
        accountant=Rdp(),
        budget=budget,
        run_dir=path,
        holdout=holdout,
        checkpoint_every=4,
    )
    trainer = pl.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        callbacks=[callback, *([StopsAt(stops_at)] if stops_at is not None else [])],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        val_check_interval=2,
        check_val_every_n_epoch=None,
    )
    dataset = Visits()
    validation = [DataLoader(TensorDataset(*dataset.tensors), batch_size=50)] if validates else []
    trainer.fit(Mine(), callback.loader(dataset), *validation)
    return {
        "dataset": f"{Visits.__module__}.Visits",
        "user": "users" if users else None,
        "records": 40 if users else 120,
        "validations": (stops_at or STEPS) // 2 if validates else 0,
        "steps": STEPS,
        "stopped_early": stops_at is not None,
    }
