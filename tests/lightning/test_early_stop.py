"""Runs that a callback stops early, and runs that are resumed at the end of an epoch."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.errors import UsageError
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.runs.directory import RunDirectory
from dppipe.runs.record import RunRecord
from dppipe.sampling import Poisson

MODULE = '''
import pytorch_lightning as pl
import torch
from torch import nn


class Net(pl.LightningModule):
    """Stops after its second validation, and averages the losses of an epoch."""

    def __init__(self, input_shape, outputs, stops: bool = True):
        super().__init__()
        self.stops = stops
        self.layer = nn.Linear(input_shape[0], outputs)
        self.losses = []

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.losses.append(loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.last_mean = sum(self.losses) / len(self.losses)
        self.losses.clear()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.cross_entropy(self.layer(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def configure_callbacks(self):
        stopping = pl.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
        return [stopping] if self.stops else []
'''


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the change to the small spec that has it train the module above."""
    (tmp_path / "stopping_nets.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "stopping_nets", raising=False)
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec.read_text().replace("optimizer: {kind: sgd, lr: 0.5}\n", ""))
    return "model={class_path: stopping_nets.Net}"


def verify(path: Path) -> int:
    return CliRunner().invoke(app, ["ledger", "verify", str(path)]).exit_code


def test_an_early_stop_completes_the_run_and_claims_the_whole_plan(run: Any, net: str) -> None:
    done = run(net, "train.steps=40", "train.validate_every=5", "budget.epsilon=20")
    assert done.exit_code == 0, done.output
    assert "completed, stopped early by a callback" in done.output
    plan = json.loads((done.path / "plan.json").read_text())
    assert done.summary["status"] == "completed"
    assert done.summary["stopped_early"] is True
    assert done.summary["steps"] == len(done.rows) == 10
    assert done.summary["epsilon"] == plan["epsilon"] > done.summary["epsilon_spent"]
    assert set(done.weights()) == {"layer.weight", "layer.bias"}
    assert "a callback stopped it early" in (done.path / "privacy.md").read_text()
    assert json.loads((done.path / "privacy.json").read_text())["stopped_early"] is True
    assert verify(done.path) == 0


def test_a_run_that_was_stopped_early_is_finished_and_is_not_resumed(run: Any, net: str) -> None:
    done = run(net, "train.steps=40", "train.validate_every=5", "budget.epsilon=20")
    before = {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()}
    again = CliRunner().invoke(app, ["resume", str(done.path)])
    assert again.exit_code == 2
    said = " ".join(again.output.split())
    assert "stopped it early: train on without that callback in a new run" in said
    assert {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()} == before


def test_weights_of_a_run_stopped_early_count_as_its_whole_plan(run: Any, net: str) -> None:
    first = run(net, "train.steps=40", "train.validate_every=5", "budget.epsilon=20")
    weights = first.path / "checkpoints" / "final.ckpt"
    model = f"model={{class_path: stopping_nets.Net, pretrained: {weights}}}"
    second = run(model, "train.steps=5", "budget.epsilon=20")
    assert second.exit_code == 0, second.output
    (earlier,) = json.loads((second.path / "plan.json").read_text())["earlier"]["runs"]
    assert sum(charge["count"] for charge in earlier["events"]) == 40


def test_a_baseline_that_is_stopped_early_is_complete_too(run: Any, net: str) -> None:
    done = run(net, "train.steps=40", "train.validate_every=5", "budget=none")
    assert done.exit_code == 0, done.output
    assert done.summary["stopped_early"] is True
    assert done.weights()


class Stops(pl.Callback):
    """Stops a Trainer after its third step."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        trainer.should_stop = trainer.global_step == 3


class Signals(pl.Callback):
    """Sends a Ctrl-C in the step after which a callback stops the run too."""

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        if trainer.global_step == 3:
            trainer.should_stop = True
            os.kill(os.getpid(), signal.SIGINT)


class Mine(pl.LightningModule):
    """An ordinary module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def loss(self, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.loss(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


QUIET = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


def fit(
    run_dir: Path | None,
    *others: pl.Callback,
    steps: int = 12,
    resume: RunDirectory | None = None,
) -> dppipe.DPCallback:
    dataset = TensorDataset(torch.randn(100, 5), torch.randint(3, (100,)))
    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=0.25, physical_batch_size=4),
        noise=Constant(noise_multiplier=2.0),
        accountant=Rdp(),
        budget=dppipe.Budget(epsilon=20.0, delta=1e-5),
        run_dir=run_dir,
        holdout="public",
        resume=resume,
    )
    callbacks = [private, *others]
    trainer = pl.Trainer(max_steps=steps, accelerator="cpu", callbacks=callbacks, **QUIET)
    path = resume.last_checkpoint if resume is not None else None
    scored = DataLoader(dataset, batch_size=50)
    trainer.fit(Mine(), private.loader(dataset), scored, ckpt_path=path, weights_only=True)
    return private


def test_early_stopping_in_python_leaves_a_finished_run(tmp_path: Path) -> None:
    stopping = pl.callbacks.EarlyStopping("val_loss", patience=1, min_delta=100.0)
    private = fit(tmp_path / "run", stopping)
    assert private.outcome is not None
    assert (private.outcome.status, private.outcome.stopped_early) == ("completed", True)
    assert private.outcome.steps == 8
    assert (tmp_path / "run" / "checkpoints" / "final.ckpt").exists()
    assert "stopped it early" in (tmp_path / "run" / "privacy.md").read_text()
    with pytest.raises(UsageError, match="stopped it early"):
        fit(None, stopping, resume=RunDirectory.open(tmp_path / "run"))


def test_a_signal_with_an_early_stop_leaves_the_run_to_be_resumed(tmp_path: Path) -> None:
    private = fit(tmp_path / "run", Signals())
    assert private.outcome is not None
    assert (private.outcome.status, private.outcome.stopped_early) == ("interrupted", False)
    assert not (tmp_path / "run" / "checkpoints" / "final.ckpt").exists()


def test_a_stop_at_the_last_planned_step_is_no_early_stop(tmp_path: Path) -> None:
    private = fit(tmp_path / "run", Stops(), steps=3)
    assert private.outcome is not None
    assert (private.outcome.status, private.outcome.stopped_early) == ("completed", False)


@pytest.mark.parametrize("after", [3, 4, 8])
def test_a_module_that_averages_its_losses_can_be_resumed_at_the_end_of_an_epoch(
    run: Any, net: str, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """An epoch has 4 steps. Hooks at its end run before the first step of the resumed run."""
    finish = RunRecord.step

    def then_signal(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.rows == after:
            os.kill(os.getpid(), signal.SIGINT)

    model = "model={class_path: stopping_nets.Net, init_args: {stops: false}}"
    changes = (model, "sampler.sample_rate=0.25", "budget.epsilon=90")
    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        stopped = run(*changes)
    assert stopped.exit_code == 130, stopped.output
    resumed = CliRunner().invoke(app, ["resume", str(stopped.path)])
    assert resumed.exit_code == 0, resumed.output
    assert stopped.summary["status"] == "completed"
    assert stopped.summary["steps"] == stopped.summary["charged"] == 10
