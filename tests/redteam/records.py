"""Records: ordinary ones, ones that do harm, and the data sets that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
from redteam.facts import describe
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

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


class Augmented(Records):
    """Adds noise to its examples, from torch's own generator."""

    def __getitem__(self, place: int) -> Any:
        x, y = super().__getitem__(place)
        return x + torch.rand(FEATURES), y


def ordinary(number: int) -> tuple[Tensor, int]:
    """Return one ordinary pair of features and class."""
    generator = torch.Generator().manual_seed(number)
    return torch.randn(FEATURES, generator=generator), int(
        torch.randint(CLASSES, (), generator=generator)
    )


def sentence(
    number: int,
    *,
    places: int = LENGTH,
    length: int | None = None,
    token: int | None = None,
    weight: float = 1.0,
) -> dict[str, Any]:
    """Return one ordinary example as a dictionary: padded tokens, their mask, a weight of the loss and a label."""
    generator = torch.Generator().manual_seed(number)
    length = length or 2 + number % 3  # below LENGTH
    tokens = torch.randint(1, VOCABULARY, (places,), generator=generator)
    if token is not None:
        tokens[0] = token
    mask = (torch.arange(places) < length).float()
    return {
        "tokens": tokens * mask.long(),
        "mask": mask,
        "weight": torch.tensor(weight),
        "label": number % CLASSES,
    }


EMPTY = (torch.full((FEATURES,), math.nan), 0)
EMPTY_SENTENCE = sentence(0, weight=math.nan)


def raises() -> Any:
    """Stand for a record that can't be read."""
    raise OSError("record 4711: truncated file")


class Undecoded(Mapping[str, Any]):
    """A mapping that decodes its values when it is asked for them, and can't."""

    def __getitem__(self, name: str) -> Any:
        raise OSError("record 4711: can't be decoded")

    def __iter__(self) -> Iterator[str]:
        return iter(sentence(0))

    def __len__(self) -> int:
        return len(sentence(0))


def exits() -> Any:
    """Stand for a record whose reader gives up."""
    raise SystemExit("record 4711: not supported")


HARMFUL: dict[str, Example] = {
    "large": (torch.full((FEATURES,), 3.0), 1),
    "huge": (torch.full((FEATURES,), 1e30), 1),
    "nan": (torch.full((FEATURES,), math.nan), 1),
    "infinite": (torch.tensor([math.inf, 0.0, 0.0, 0.0]), 1),
    "label_out_of_range": (torch.ones(FEATURES), 17),
    "negative_label": (torch.ones(FEATURES), -5),
    "cannot_be_read": raises,
    "ends_the_program": exits,
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
    "of_another_length": sentence(5, places=40 * LENGTH, length=LENGTH, weight=20.0),
    "token_out_of_range": sentence(5, token=VOCABULARY + 100),
    "negative_token": sentence(5, token=-3),
    "infinite_weight": sentence(5, weight=math.inf),
    "all_padding": {**sentence(5), "mask": torch.zeros(LENGTH)},
    "missing_key": {"tokens": torch.zeros(LENGTH, dtype=torch.int64)},
    "cannot_be_read": raises,
    "cannot_be_decoded": Undecoded,
}
"""Records that do harm, for dictionaries."""
BROKEN_SENTENCES = [
    *(
        "token_out_of_range",
        "negative_token",
        "infinite_weight",
        "all_padding",
        "missing_key",
        "cannot_be_read",
    ),
    "cannot_be_decoded",
]


def as_tensors(examples: Sequence[tuple[Tensor, int]]) -> TensorDataset:
    """Return examples as one tensor for each part."""
    return TensorDataset(
        torch.stack([x for x, _ in examples]), torch.tensor([y for _, y in examples])
    )
