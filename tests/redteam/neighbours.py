"""Neighbouring data sets: one record, chosen to do harm, and the same data without it.

`zero_out` puts an empty row in the record's place, `replace_one` an ordinary record, `add_remove` leaves it out. An empty row is
one whose loss is not a number: the core gives it a weight of zero, whatever the model does with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from facts import describe
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

import dppipe
from dppipe.data.base import Splits

RECORDS, FEATURES, CLASSES, VOCABULARY, LENGTH = 24, 4, 3, 11, 32
Example = Any
"""What a data set gives for one record, or what raises in its stead."""


class Records(Dataset[Any]):
    """A map-style data set; an example that is a function is called, and may raise."""

    def __init__(self, examples: Sequence[Example], users: Any = None) -> None:
        self.examples = list(examples)
        if users is not None:
            self.users = numpy.asarray(users)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> Any:
        example = self.examples[place]
        return example() if callable(example) else example

    def identity(self, place: int) -> str:
        example = self.examples[place]
        return "broken" if callable(example) else repr(describe(example))


@dataclass(frozen=True)
class Data:
    """What a run is given."""

    train: Dataset[Any]
    val: Dataset[Any] | None


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets."""

    first: Data
    second: Data
    relation: str
    empty_row: Any = None
    in_holdout: bool = False
    """Whether the record stands in the holdout."""
    contributes: bool = True
    """Whether the record can have a gradient at all."""


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

    def count(self) -> int:
        return self.known_count(len(STAGE[0].train))

    def train_count(self) -> int:
        return super().train_count() if STAGE[0].val is None else self.count()

    def load(self) -> Any:
        data = STAGE[0]
        return data.train if data.val is None else Splits(data.train, data.val, None)


def ordinary(number: int) -> tuple[Tensor, int]:
    """Return one ordinary pair of features and class."""
    generator = torch.Generator().manual_seed(number)
    return torch.randn(FEATURES, generator=generator), int(torch.randint(CLASSES, (), generator=generator))


def sentence(number: int, *, length: int | None = None, token: int | None = None, weight: float = 1.0) -> dict[str, Any]:
    """Return one ordinary example as a dictionary: padded tokens, their mask, a weight of the loss and a label."""
    generator = torch.Generator().manual_seed(number)
    length = length or 2 + number % 3  # below LENGTH
    tokens = torch.randint(1, VOCABULARY, (LENGTH,), generator=generator)
    if token is not None:
        tokens[0] = token
    mask = (torch.arange(LENGTH) < length).float()
    return {"tokens": tokens * mask.long(), "mask": mask, "weight": torch.tensor(weight), "label": number % CLASSES}


EMPTY = (torch.full((FEATURES,), math.nan), 0)
EMPTY_SENTENCE = sentence(0, weight=math.nan)


def raises() -> Any:
    """Stand for a record that can't be read."""
    raise OSError("record 4711: truncated file")


HARMFUL: dict[str, Example] = {
    "large": (torch.full((FEATURES,), 3.0), 1),
    "huge": (torch.full((FEATURES,), 1e30), 1),
    "nan": (torch.full((FEATURES,), math.nan), 1),
    "infinite": (torch.tensor([math.inf, 0.0, 0.0, 0.0]), 1),
    "label_out_of_range": (torch.ones(FEATURES), 17),
    "negative_label": (torch.ones(FEATURES), -5),
    "cannot_be_read": raises,
    "wrong_shape": (torch.ones(FEATURES + 3), 1),
    "wrong_type": (torch.ones(FEATURES, dtype=torch.complex64), 1),
    "text_for_a_number": ("missing", 1),
    "text_for_a_label": (torch.ones(FEATURES), "cat"),
    "no_label": (torch.ones(FEATURES),),
}
"""Records that do harm, for pairs of features and class."""
BROKEN = [name for name in HARMFUL if name != "large"]
"""Those that may have no gradient."""

HARMFUL_SENTENCES: dict[str, Example] = {
    "large": sentence(5, weight=50.0),
    "longest": sentence(5, length=LENGTH, weight=0.01),
    "token_out_of_range": sentence(5, token=VOCABULARY + 100),
    "negative_token": sentence(5, token=-3),
    "infinite_weight": sentence(5, weight=math.inf),
    "all_padding": {**sentence(5), "mask": torch.zeros(LENGTH)},
    "missing_key": {"tokens": torch.zeros(LENGTH, dtype=torch.int64)},
    "cannot_be_read": raises,
}
"""Records that do harm, for dictionaries."""
BROKEN_SENTENCES = ["token_out_of_range", "negative_token", "infinite_weight", "all_padding", "missing_key", "cannot_be_read"]


def pair(
    harmful: str = "large",
    relation: str = "zero_out",
    *,
    at: int = 7,
    keeps_row: bool = False,
    tensors: bool = False,
    with_val: bool = True,
    sentences: bool = False,
    contributes: bool | None = None,
) -> Pair:
    """Return a pair of neighbouring data sets that differ in the record at a place.

    Args:
        harmful: The name of the record that differs.
        relation: What becomes of it in the second data set.
        at: Its place.
        keeps_row: Whether under add_remove an empty row keeps its place, for models whose randomness goes by place.
        tensors: Whether the data are tensors.
        with_val: Whether there is a holdout; else the data are split by dppipe.
        sentences: Whether examples are dictionaries.
        contributes: Whether the record can have a gradient, where that isn't the usual.
    """
    make: Callable[[int], Example] = sentence if sentences else ordinary
    record = (HARMFUL_SENTENCES if sentences else HARMFUL)[harmful]
    empty = EMPTY_SENTENCE if sentences else EMPTY
    examples = [make(number) for number in range(RECORDS)]
    examples[at] = record
    other = replaced(examples, at, relation, empty=empty, ordinary=make(1000))
    build = as_tensors if tensors else Records
    val = Records([make(number) for number in range(100, 108)]) if with_val else None
    row = empty if keeps_row and relation == "add_remove" else None
    if tensors and row is not None:
        row = tuple(torch.as_tensor(part) for part in row)
    if contributes is None:
        contributes = harmful not in (BROKEN_SENTENCES if sentences else BROKEN)
    return Pair(Data(build(examples), val), Data(build(other), val), relation, empty_row=row, contributes=contributes)


def replaced(examples: list[Example], at: int, relation: str, *, empty: Example, ordinary: Example) -> list[Example]:
    """Return the neighbour of a list of examples."""
    if relation == "add_remove":
        return examples[:at] + examples[at + 1 :]
    return examples[:at] + [ordinary if relation == "replace_one" else empty] + examples[at + 1 :]


class Augmented(Records):
    """Adds noise to its examples, from torch's own generator."""

    def __getitem__(self, place: int) -> Any:
        x, y = super().__getitem__(place)
        return x + torch.rand(FEATURES), y


def augmented_pair(relation: str) -> Pair:
    """Return a pair whose examples are augmented at random; under add_remove an empty row draws what the record did."""
    made = pair("large", relation, keeps_row=True)
    row = made.empty_row and (lambda: (EMPTY[0] + torch.rand(FEATURES), EMPTY[1]))
    first, second = (Data(Augmented(each.train.examples), each.val) for each in (made.first, made.second))
    return Pair(first, second, relation, empty_row=row)


def holdout_pair(harmful: str) -> Pair:
    """Return a pair whose record stands in the holdout, which is private; an ordinary record takes its place."""
    train = Records([ordinary(number) for number in range(RECORDS)])
    held = [ordinary(number) for number in range(100, 108)]
    first = Records([*held[:3], HARMFUL[harmful], *held[4:]])
    return Pair(Data(train, first), Data(train, Records(held)), "zero_out", in_holdout=True)


def user_pair(harmful: str, relation: str, *, records: int = 9) -> Pair:
    """Return a pair that differs in all records of one user, who has many."""
    examples = [ordinary(number) for number in range(RECORDS)]
    users = [10 + number % 8 for number in range(RECORDS)]
    mine = [HARMFUL[harmful]] * records
    others = [user != 13 for user in users]
    kept = [example for example, other in zip(examples, others, strict=True) if other]
    owners = [user for user, other in zip(users, others, strict=True) if other]
    first = Records([*kept[:5], *mine, *kept[5:]], [*owners[:5], *[13] * records, *owners[5:]])
    second = Records([*kept[:5], *[EMPTY] * records, *kept[5:]], first.users)
    if relation == "add_remove":
        second = Records(kept, owners)
    val = Records([ordinary(number) for number in range(100, 108)])
    return Pair(Data(first, val), Data(second, val), relation, contributes=harmful not in BROKEN)


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


def as_tensors(examples: Sequence[tuple[Tensor, int]]) -> TensorDataset:
    """Return examples as one tensor for each part."""
    return TensorDataset(torch.stack([x for x, _ in examples]), torch.tensor([y for _, y in examples]))


def file_pair(relation: str, *, at: int = 7) -> Pair:
    """Return a pair for files, which hold numbers only and so no empty rows: for replace_one and add_remove."""
    examples = [ordinary(number) for number in range(RECORDS)]
    examples[at] = HARMFUL["large"]
    other = replaced(examples, at, relation, empty=EMPTY, ordinary=ordinary(1000))
    return Pair(Data(Records(examples), None), Data(Records(other), None), relation)
