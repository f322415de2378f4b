"""Made-up records for runs of learners: a spec finds them on a stage, so that two runs on different records have one spec.

Nothing here imports torch before a record is read: plans are made of these data, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

import dppipe

FEATURES, CLASSES, RECORDS, USERS = 4, 3, 60, 20
Example = Any
"""What a data set returns for one record, or a function that is called when the record is read."""


class Records:
    """A map-style data set; an example that is a function is called, and may raise."""

    def __init__(self, examples: Sequence[Example], users: Sequence[int] | None = None) -> None:
        self.examples = list(examples)
        if users is not None:
            self.users = numpy.asarray(users)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> Any:
        example = self.examples[place]
        return example() if callable(example) else example


class Unreadable(Records):
    """Says how many records there are, and fails the test that reads one."""

    def __init__(self, count: int, users: Sequence[int] | None = None) -> None:
        super().__init__([None] * count, users)

    def __getitem__(self, place: int) -> Any:
        raise AssertionError("a record was read")


@dataclass
class Stage:
    """What `Staged` reads."""

    train: Records = field(default_factory=lambda: Unreadable(RECORDS))
    val: Records | None = None
    test: Records | None = None


STAGE = Stage()


class Staged(dppipe.Data):
    """The records that are on the stage."""

    task: str = "multiclass"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (FEATURES,)

    @property
    def outputs(self) -> int:
        return CLASSES if self.task == "multiclass" else 1

    @property
    def by_users(self) -> bool:
        return hasattr(STAGE.train, "users")

    def count(self) -> int:
        return self.known_count(len(STAGE.train))

    def train_count(self) -> int:
        return self.count()

    def load(self) -> Any:
        from dppipe.data.base import Splits

        assert not isinstance(STAGE.train, Unreadable), "records were loaded"
        return Splits(STAGE.train, STAGE.val, STAGE.test)


def ordinary(number: int, task: str) -> Example:
    """Return one ordinary record, of which the label can be learned."""
    import torch

    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(FEATURES, generator=generator)
    if task == "multiclass":
        return inputs, int(inputs[:CLASSES].argmax())
    if task == "binary":
        return inputs, float(inputs[0] > 0)
    return inputs, (0.8 * inputs[:1]).clamp(-1, 1)


def ordinary_records(task: str, numbers: range) -> list[Example]:
    return [ordinary(number, task) for number in numbers]


def fill_stage(task: str, train: Records) -> None:
    """Put records on the stage, with ordinary ones to validate and test on."""
    STAGE.train = train
    STAGE.val = Records(ordinary_records(task, range(1000, 1012)))
    STAGE.test = Records(ordinary_records(task, range(2000, 2012)))


def label(task: str, number: int) -> Any:
    """Return the first or the last label of a task; a regression has no largest number."""
    import torch

    if task == "regression":
        return torch.tensor([-1e30 if number == 0 else 1e30])
    last = CLASSES - 1 if task == "multiclass" else 1.0
    return number if number == 0 else last


def raises() -> Any:
    raise OSError("record 4711: truncated file")


def exits() -> Any:
    raise SystemExit("record 4711: not supported")


def full(value: float, *, size: int = FEATURES) -> Any:
    import torch

    return torch.full((size,), value)


HARMFUL: dict[str, Callable[[str], Example]] = {
    "large": lambda task: (full(30.0), label(task, 0)),
    "large with another label": lambda task: (full(30.0), label(task, 1)),
    "opposite": lambda task: (full(-30.0), label(task, 1)),
    "one feature": lambda task: (full(0.0).index_fill(0, _first(), -9.0), label(task, 1)),
    "zero": lambda task: (full(0.0), label(task, 0)),
    "tiny": lambda task: (full(1e-40), label(task, 0)),
    "huge": lambda task: (full(1e38), label(task, 0)),
    "nan": lambda task: (full(math.nan), label(task, 0)),
    "infinite": lambda task: (full(1.0).index_fill(0, _first(), math.inf), label(task, 0)),
    "label out of range": lambda task: (full(1.0), full(math.inf, size=1) * 17),
    "fractional label": lambda task: (full(1.0), full(0.5, size=1)),
    "text for a label": lambda task: (full(1.0), "cat"),
    "text for numbers": lambda task: ("missing", label(task, 0)),
    "no label": lambda task: (full(1.0),),
    "another shape": lambda task: (full(1.0, size=FEATURES + 3), label(task, 0)),
    "can't be read": lambda task: raises,
    "ends the program": lambda task: exits,
}
"""Records that do harm, by the task."""


def _first() -> Any:
    import torch

    return torch.tensor([0])


@dataclass(frozen=True)
class Neighbours:
    """All records but those of one unit, whose place is filled in several ways."""

    task: str
    unit: str
    relation: str
    at: int = 7

    def without(self) -> Records:
        """Return the records of the first run: the unit is gone, or is another one."""
        if self.relation == "add_remove":
            kept = [place for place in range(RECORDS) if place not in self._mine]
            return self._records([self._usual(place) for place in kept], kept)
        return self.having("can't be read" if self.relation == "zero_out" else "opposite")

    def having(self, harmful: str) -> Records:
        """Return the records with a unit that does harm."""
        examples: list[Example] = []
        for place in range(RECORDS):
            mine = place in self._mine
            examples.append(HARMFUL[harmful](self.task) if mine else self._usual(place))
        return self._records(examples, range(RECORDS))

    @property
    def _mine(self) -> set[int]:
        if self.unit == "example":
            return {self.at}
        return {place for place in range(RECORDS) if place % USERS == self.at}

    def _usual(self, place: int) -> Example:
        return ordinary(place, self.task)

    def _records(self, examples: list[Example], places: Sequence[int]) -> Records:
        users = [place % USERS for place in places] if self.unit == "user" else None
        return Records(examples, users)
