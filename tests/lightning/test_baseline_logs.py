"""What a run without a budget shows of its training: everything that its module logs, under `nonprivate/`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.sampling import Poisson

MODULE = """
import pytorch_lightning as pl
import torch
from torch import nn
from torchmetrics import MeanMetric


class Net(pl.LightningModule):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.layer = nn.Linear(input_shape[0], outputs)
        self.mean = MeanMetric()

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"rows": float(len(batch[0]))})
        self.mean(loss.detach())
        self.log("metric", self.mean, on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self):
        self.log("at_end", 1.0)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("after", 2.0, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""
LOGGED = {
    "train_loss_step",
    "train_loss_epoch",
    "rows",
    "metric",
    "at_end",
    "after_epoch",
    "after_step",
}


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "logging_nets.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "logging_nets", raising=False)
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec.read_text().replace("optimizer: {kind: sgd, lr: 0.5}\n", ""))
    return "model={class_path: logging_nets.Net}"


def curves(path: Path) -> dict[str, list[float]]:
    events = EventAccumulator(str(path), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [each.value for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def marked(names: Any) -> set[str]:
    return {name.removeprefix("nonprivate/") for name in names if name.startswith("nonprivate/")}


def test_a_baselines_own_logs_are_curves_of_its_run(run: Any, net: str) -> None:
    done = run(net, "budget=none")
    assert done.exit_code == 0, done.output
    found = curves(done.path)
    assert marked(found) >= LOGGED
    assert not [
        name for name in found if name.removeprefix("nonprivate/") == name and "loss" in name
    ]
    assert len(found["nonprivate/train_loss_step"]) == 10
    assert set(found["nonprivate/rows"]) == {1.0}


def test_a_private_run_shows_none_of_them(run: Any, net: str) -> None:
    done = run(net)
    assert done.exit_code == 0, done.output
    assert not marked(curves(done.path)) & LOGGED


class Mine(pl.LightningModule):
    """A module whose loss on each example is its target, whatever its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = batch[1].mean() + 0.0 * self.layer(batch[0]).sum()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_baselines_logger_gets_the_mean_over_the_examples_of_a_step(tmp_path: Path) -> None:
    dataset = TensorDataset(torch.zeros(40, 1), torch.arange(40.0) % 2)
    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=1.0), budget=None, run_dir=tmp_path / "run"
    )
    own = CSVLogger(tmp_path / "csv")
    quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "log_every_n_steps": 1}
    callbacks = [private]
    trainer = pl.Trainer(max_steps=3, accelerator="cpu", callbacks=callbacks, logger=own, **quiet)
    trainer.fit(Mine(), private.loader(dataset))
    with (Path(own.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    means = [float(row["nonprivate/train_loss"]) for row in rows if row["nonprivate/train_loss"]]
    assert means == [0.5, 0.5, 0.5]
    assert trainer.callback_metrics["train_loss"] == 0.5
    assert "log" not in vars(trainer.lightning_module)
