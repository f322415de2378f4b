"""Modules and data sets that draw from generators of their own, which they have seeded themselves."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
from redteam.modules import Ordinary
from redteam.neighbours import pair
from redteam.records import FEATURES, Records
from redteam.staging import Data
from torch import Tensor


class Noise:
    """Noise from a generator of its own, by the kind of the generator."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        made = {
            "torch": lambda: torch.Generator().manual_seed(0),
            "numpy": lambda: numpy.random.default_rng(0),
            "old numpy": lambda: numpy.random.RandomState(0),
            "python": lambda: random.Random(0),
        }
        self.generator: Any = made[kind]()

    def __call__(self) -> Tensor:
        if self.kind == "torch":
            return torch.randn(FEATURES, generator=self.generator)
        if self.kind == "python":
            return torch.tensor([self.generator.gauss(0, 1) for _ in range(FEATURES)])
        return torch.from_numpy(self.generator.normal(size=FEATURES)).float()


class Drawing(Ordinary):
    """Adds noise of its own to each example from the second step on: before it, draws of NumPy's are refused."""

    def __init__(self, kind: str = "numpy") -> None:
        super().__init__()
        self.noise = Noise(kind)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        if self.trainer.global_step > 0:
            x = x + 3 * self.noise()
        return super().training_step((x, y), batch_idx)


class DrawingAndKeeping(Drawing):
    """The same, and keeps examples that it finds odd."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if self.trainer.global_step > 0 and bool((batch[0] > 2.9).all()):
            self.odd.append(float(batch[0].max()))
        return super().training_step(batch, batch_idx)


class Augmenting(Records):
    """Adds noise of its own to each example."""

    def __init__(self, examples: list[Any], kind: str) -> None:
        super().__init__(examples)
        self.noise = Noise(kind)

    def __getitem__(self, place: int) -> Any:
        x, y = super().__getitem__(place)
        return x + 3 * self.noise(), y


def augmenting_data(kind: str) -> Data:
    """Return data that draw from a generator of their own."""
    data = pair().first
    return Data(Augmenting(data.train.examples, kind), data.val)
