"""Options of a Trainer that a private fit refuses: what the clock, a limit or a profiler would do."""

from __future__ import annotations

from datetime import timedelta

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, Timer
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.clipping import Flat
from dppipe.errors import PrivacyRefusal
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson


class Mine(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def fit(tmp_path):
    def go(*, callbacks=(), **options):
        private = dppipe.DPCallback(
            sampler=Poisson(sample_rate=0.5),
            clipping=Flat(max_grad_norm=1.0),
            noise=Constant(noise_multiplier=2.0),
            accountant=Rdp(),
            budget=dppipe.Budget(epsilon=8.0, delta=1e-5),
            run_dir=tmp_path / "run",
        )
        given = {
            "max_steps": 4,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
        }
        quiet = {"enable_progress_bar": False, "enable_model_summary": False}
        trainer = pl.Trainer(callbacks=[private, *callbacks], **given | quiet | options)
        trainer.fit(
            Mine(), private.loader(TensorDataset(torch.randn(40, 5), torch.randint(3, (40,))))
        )
        return private

    return go


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"limit_train_batches": 1}, "limit_train_batches: .* got 1"),
        ({"limit_train_batches": 0.5}, "limit_train_batches: .* got 0.5"),
        ({"fast_dev_run": True}, "fast_dev_run: .* got 1"),
        ({"detect_anomaly": True}, "detect_anomaly"),
        ({"profiler": "simple"}, "SimpleProfiler"),
        ({"max_time": timedelta(hours=1)}, "max_time, Timer"),
        (
            {"val_check_interval": timedelta(minutes=1), "check_val_every_n_epoch": None},
            "val_check_interval",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_option_that_shows_or_follows_private_steps_is_refused(fit, tmp_path, options, named):
    with pytest.raises(PrivacyRefusal, match=named):
        fit(**options)
    assert not (tmp_path / "run").exists()


def test_checkpoints_by_the_clock_are_refused(fit, tmp_path):
    by_clock = ModelCheckpoint(tmp_path / "kept", train_time_interval=timedelta(minutes=1))
    with pytest.raises(PrivacyRefusal, match="train_time_interval"):
        fit(callbacks=[by_clock], enable_checkpointing=True)


def test_anomaly_detection_that_was_turned_on_elsewhere_is_refused(fit):
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.raises(PrivacyRefusal, match="detect_anomaly"),
    ):
        fit()


def test_all_batches_and_a_timer_without_a_limit_are_no_reason_to_refuse(fit):
    private = fit(limit_train_batches=1.0, callbacks=[Timer()])
    assert private.outcome.status == "completed"
