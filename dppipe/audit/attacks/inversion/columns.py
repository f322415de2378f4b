"""The columns of a table as an attacker sees them: where they stand in an input, and their values.

Values come from the spec, or from records that the attacker owns; never from members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.data.columns.options import TableOptions
from dppipe.errors import UsageError
from dppipe.spec.messages.suggestions import suggest_name

if TYPE_CHECKING:
    from dppipe.data.base import Data

_LISTED = 20
"""How many columns a message lists."""
FEW_VALUES = 10
"""A column of numbers with no more values than this is guessed exactly; another by its tenths."""


@dataclass(frozen=True)
class Place:
    """Where a column stands in an input."""

    name: str
    start: int
    width: int
    labels: tuple[str, ...] = ()
    """The stated values of a column of words; empty for a column of numbers."""

    def of(self, inputs: Tensor) -> Tensor:  # [n, d] -> [n, width]
        """Return the column's inputs."""
        return inputs[:, self.start : self.start + self.width]


@dataclass(frozen=True)
class Values:
    """What an unknown column may hold."""

    place: Place
    encoded: Tensor
    """`[values, width]`: each value as the model sees it."""
    labels: tuple[str, ...]

    def numbers(self, inputs: Tensor) -> Tensor:  # [n, d] -> [n]
        """Return which value each record has: the nearest."""
        return torch.cdist(self.place.of(inputs).double(), self.encoded.double()).argmin(1)

    def prior(self, inputs: Tensor) -> Tensor:  # [n, d] -> [values]
        """Return the logarithm of each value's share; one is added to each count."""
        counts = torch.bincount(self.numbers(inputs), minlength=len(self.encoded)).double() + 1
        return (counts / counts.sum()).log()


def places_of(data: Data) -> dict[str, Place]:
    """Return the columns of a table by name; a table without names has numbers, from 0."""
    shape = tuple(data.input_shape)
    if len(shape) != 1 or data.feature_map is not None:
        return {}
    if not isinstance(data, TableOptions):
        return {str(number): Place(str(number), number, 1) for number in range(shape[0])}
    found: dict[str, Place] = {}
    for number, numeric in enumerate(data.numeric):
        found[numeric.column] = Place(numeric.column, number, 1)
    start = len(data.numeric)
    for words in data.categorical:
        if words.values is not None and data.categories == "one_hot":
            # Other and missing words have inputs after those of the listed values.
            found[words.column] = Place(words.column, start, len(words.values), words.values)
        start += words.width if data.categories == "one_hot" else 1
    return found


def find_place(data: Data, name: str) -> Place:
    """Return a column of a table by its name; an unknown one is an error that lists the known."""
    known = places_of(data)
    if name in known:
        return known[name]
    if not known:
        raise UsageError(
            f"attack: --column: expected a run on a table, whose columns the model sees, got "
            f"data of kind {data.kind!r}. Leave --column out to invert classes."
        )
    listed = ", ".join(list(known)[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    raise UsageError(
        f"attack: --column: expected one of {listed}{more}, got {name!r}."
        f"{suggest_name(name, known)}"
    )


def values_of(place: Place, inputs: Tensor) -> Values:  # [n, d]
    """Return what a column may hold: its stated words, or numbers that occur in these inputs.

    Where there are many different numbers, the attacker guesses the tenth of the records that the
    number lies in: each tenth is represented by its median.
    """
    if place.labels:
        # Any other word is encoded by zeros.
        encoded = torch.cat([torch.eye(place.width), torch.zeros(1, place.width)])
        return Values(place, encoded, (*place.labels, "another"))
    numbers = place.of(inputs)[:, 0].double().sort().values
    found = torch.unique(numbers)
    if len(found) > FEW_VALUES:
        shares = (torch.arange(FEW_VALUES, dtype=torch.float64) + 0.5) / FEW_VALUES
        found = torch.unique(torch.quantile(numbers, shares))
    labels = tuple(f"{float(value):.3g}" for value in found)
    return Values(place, found[:, None].to(inputs.dtype), labels)
