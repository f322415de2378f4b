"""A private step never waits for the device: it runs on tensors that have no values and no host.

Module and tensors are on `meta` under `FakeTensorMode`, where reading a value, branching on one, a
size that depends on one and mixing devices all raise; a dispatch mode refuses copies to the host.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import dppipe.engine.engine as engine_module
from dppipe.clipping import Flat, Layerwise
from dppipe.engine import Engine


class Everything(nn.Module):
    """One layer of every kind."""

    def __init__(self):
        super().__init__()
        self.table, self.attention = (
            nn.Embedding(11, 8),
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        )
        self.conv, self.norm, self.rms = nn.Conv1d(8, 4, 3), nn.GroupNorm(2, 4), nn.RMSNorm(7)
        self.memory, self.gate, self.head = (
            nn.LSTM(4, 6, batch_first=True),
            nn.Parameter(torch.randn(6)),
            nn.Linear(6, 3),
        )
        self.odd = nn.Bilinear(6, 6, 6)

    def forward(self, ids):
        x = self.attention(self.table(ids))
        x = self.rms(self.norm(self.conv(x.transpose(1, 2)))).relu().transpose(1, 2)
        x = self.memory(x)[0].mean(1) * self.gate
        return self.head(self.odd(x, x))


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.fixture
def private_step(no_copies_to_host):
    def take(*, clipper, **options):
        with FakeTensorMode(), no_copies_to_host():
            with torch.device("meta"):
                model = Everything()
                batch = torch.zeros(5, 9, dtype=torch.long), torch.zeros(5, dtype=torch.long)
                mask = torch.ones(5, dtype=torch.bool)
            optimizer = torch.optim.Adam(model.parameters())
            with Engine(model, loss, clipper) as engine:
                for _ in range(2):
                    sums = engine.zeros()
                    norms = engine.accumulate(
                        batch, sums, bounds=engine.bounds(), mask=mask, **options
                    )
                    for name, parameter in model.named_parameters():
                        parameter.grad = sums[name] / 5
                    optimizer.step()
            assert norms.device.type == "meta"
            assert all(total.device.type == "meta" for total in sums.values())

    return take


@pytest.mark.parametrize("clipper", [Flat(), Layerwise()], ids=["flat", "layerwise"])
@pytest.mark.parametrize("options", [{}, {"units": [0, 0, 1, 2, 2]}], ids=["rows", "units"])
def test_a_private_step_reads_nothing_from_the_device(private_step, clipper, options):
    private_step(clipper=clipper, **options)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda norms: norms * float(norms.max().item()),
        lambda norms: norms if norms.sum() > 0 else -norms,
        lambda norms: norms[norms.isfinite().all(1)],
        lambda norms: norms + torch.zeros(1),
        lambda norms: norms.cpu().to("meta"),
        lambda norms: torch.tensor(norms.tolist()),
    ],
    ids=["item", "branch", "data-dependent size", "tensor of the host", "copy to the host", "list"],
)
def test_a_mistake_in_the_step_is_caught(private_step, mistake, monkeypatch):
    right = engine_module.bounded_factors
    monkeypatch.setattr(
        engine_module,
        "bounded_factors",
        lambda clipper, norms, bounds: right(clipper, mistake(norms), bounds),
    )
    with pytest.raises((RuntimeError, AssertionError)):
        private_step(clipper=Flat())
