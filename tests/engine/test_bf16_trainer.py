"""A Trainer in bf16-mixed: every row that a step adds up, measured by itself, stays within the
bound.
"""

from __future__ import annotations

import os

import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import dppipe
from dppipe.clipping import Flat
from dppipe.engine import Engine
from dppipe.noise import Constant
from dppipe.privacy.accountants.rdp import Rdp
from dppipe.sampling import Poisson

# Without it oneDNN's bf16 kernels can stop with an illegal instruction on machines that advertise
# AMX but don't grant it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

BOUND = 0.5


class OneLoss(pl.LightningModule):
    """A classifier of sequences with a step that gives one loss for a whole batch."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(96, 256, bias=False), nn.Linear(256, 3, bias=False)

    def forward(self, inputs):
        return self.head(torch.tanh(self.mix(inputs)).mean(1))

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Losses(OneLoss):
    """The same with one loss for each row; its large layer is held by its factors."""

    def per_sample_loss(self, batch):
        return F.cross_entropy(self(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("module", [Losses, OneLoss])
def test_each_row_of_a_bf16_step_stays_within_the_bound(tmp_path, monkeypatch, module):
    accumulate, whole, shares, autocast = Engine.accumulate, Engine.accumulate_parts, [], []

    def measured(engine, parts, into, *, bounds, units=None, clipper=None):
        (batch,) = parts
        rows = len(batch[0])
        if into is not None and rows and float(bounds) == BOUND:
            autocast.append(torch.is_autocast_enabled("cpu"))
            for i in range(rows):
                alone = engine.zeros()
                accumulate(
                    engine,
                    batch,
                    alone,
                    bounds=bounds,
                    mask=torch.arange(rows) == i,
                    clipper=clipper,
                )
                shares.append(
                    sum(float(total.double().square().sum()) for total in alone.values()) ** 0.5
                    / BOUND
                )
        return whole(engine, parts, into, bounds=bounds, units=units, clipper=clipper)

    monkeypatch.setattr(Engine, "accumulate_parts", measured)
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 10, 96) + 3, torch.randint(0, 3, (64,)))
    private = dppipe.DPCallback(
        sampler=Poisson(sample_rate=0.2, physical_batch_size=16),
        clipping=Flat(max_grad_norm=BOUND),
        noise=Constant(noise_multiplier=1.0),
        accountant=Rdp(),
        budget=dppipe.Budget(epsilon=50.0, delta=1e-5),
        run_dir=tmp_path / "run",
    )
    options = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
    }
    trainer = pl.Trainer(
        max_steps=3,
        precision="bf16-mixed",
        callbacks=[private],
        enable_model_summary=False,
        **options,
    )
    trainer.fit(module(), private.loader(dataset))
    assert any(autocast), "the steps are to run under the Trainer's autocast"
    assert len(shares) > 10
    assert 0.999 < max(shares) <= 1 + 1e-5
