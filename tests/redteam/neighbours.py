"""Neighbouring data sets: one record, chosen to do harm, and the same data without it.

`zero_out` puts an empty row in the record's place, `replace_one` an ordinary record, `add_remove` leaves it out. An empty row is
one whose loss is not a number: the core gives it a weight of zero, whatever the model does with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from redteam.records import (
    BROKEN,
    BROKEN_SENTENCES,
    EMPTY,
    EMPTY_SENTENCE,
    FEATURES,
    HARMFUL,
    HARMFUL_SENTENCES,
    RECORDS,
    Augmented,
    Example,
    Records,
    as_tensors,
    ordinary,
    sentence,
)
from redteam.staging import Data


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
    return Pair(
        Data(build(examples), val),
        Data(build(other), val),
        relation,
        empty_row=row,
        contributes=contributes,
    )


def replaced(
    examples: list[Example], at: int, relation: str, *, empty: Example, ordinary: Example
) -> list[Example]:
    """Return the neighbour of a list of examples."""
    if relation == "add_remove":
        return examples[:at] + examples[at + 1 :]
    instead = ordinary if relation == "replace_one" else empty
    return [*examples[:at], instead, *examples[at + 1 :]]


def augmented_pair(relation: str) -> Pair:
    """Return a pair whose examples are augmented at random; under add_remove an empty row draws what the record did."""
    made = pair("large", relation, keeps_row=True)
    row = made.empty_row and (lambda: (EMPTY[0] + torch.rand(FEATURES), EMPTY[1]))
    first, second = (
        Data(Augmented(each.train.examples), each.val) for each in (made.first, made.second)
    )
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


def file_pair(relation: str, *, at: int = 7) -> Pair:
    """Return a pair for files, which hold numbers only and so no empty rows: for replace_one and add_remove."""
    examples = [ordinary(number) for number in range(RECORDS)]
    examples[at] = HARMFUL["large"]
    other = replaced(examples, at, relation, empty=EMPTY, ordinary=ordinary(1000))
    return Pair(Data(Records(examples), None), Data(Records(other), None), relation)
