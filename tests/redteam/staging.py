"""How data reaches a run: handed over, on a stage where a spec finds it, or in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from redteam.records import CLASSES, FEATURES
from torch.utils.data import Dataset

import dppipe
from dppipe.data.base import Splits


@dataclass(frozen=True)
class Data:
    """What a run is given."""

    train: Dataset[Any]
    val: Dataset[Any] | None


STAGE: list[Data] = []
"""What `Staged` reads: a run finds it by this name, so that both runs of a pair have the same spec."""


class Staged(dppipe.Data):
    """The data of the run that is on."""

    classes: int = CLASSES

    @property
    def task(self) -> str:
        return "multiclass"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (FEATURES,)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def by_users(self) -> bool:
        return hasattr(STAGE[0].train, "users")

    def count(self) -> int:
        return self.known_count(len(STAGE[0].train))

    def train_count(self) -> int:
        return super().train_count() if STAGE[0].val is None else self.count()

    def load(self) -> Any:
        data = STAGE[0]
        return data.train if data.val is None else Splits(data.train, data.val, None)


def write_records(data: Data, path: Path) -> None:
    """Write the training records into a file: arrays, or a table of features and class."""
    inputs = [features.tolist() for features, _ in data.train.examples]
    targets = [number for _, number in data.train.examples]
    if path.suffix == ".npz":
        numpy.savez(path, x=numpy.array(inputs, numpy.float32), y=numpy.array(targets))
        return
    lines = ["a,b,c,d,class"]
    for features, number in zip(inputs, targets, strict=True):
        lines.append(",".join(f"{value:.6f}" for value in features) + f",c{number}")
    path.write_text("\n".join(lines) + "\n")
