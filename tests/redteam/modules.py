"""Ordinary modules and networks of users, and what they are trained with."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from redteam.records import CLASSES, FEATURES
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dppipe.sampling import Poisson


class Ordinary(pl.LightningModule):
    """An ordinary module: a mean loss in `training_step`, a metric in `validation_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", cross_entropy(self.net(x), y))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Offering(Ordinary):
    """The same with a loss for each example."""

    def per_sample_loss(self, batch: Any) -> Tensor:
        x, y = batch
        return cross_entropy(self.net(x), y, reduction="none")


class Dropping(Offering):
    """Has two layers of dropout: what a row gets depends on its place among the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Dropout(0.3),
            nn.Linear(FEATURES, 16),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(16, CLASSES),
        )


class DroppingInSteps(Ordinary):
    """The same by `training_step`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Dropping().net


class Net(nn.Module):
    """A network for `class_path` in a spec."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(p), nn.Linear(8, CLASSES)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def in_one_piece() -> Poisson:
    """Return a sampler whose batches go through the model at once."""
    return Poisson(sample_rate=0.6, expected_batch_size=10, physical_batch_size=64)


def made_up(count: int) -> Any:
    """Return made-up examples."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(count, FEATURES, generator=generator),
        torch.randint(CLASSES, (count,), generator=generator),
    ]
