"""Dividing the records of a data kind into parts, by position or by hash."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol, cast

from dppipe.data.splitting.by_position import split_by_order, split_users
from dppipe.data.splitting.parts import Split, SplitBy, Splits, take
from dppipe.errors import UsageError


class Divided(Protocol):
    """What a data kind says about its parts."""

    @property
    def split(self) -> Split:
        """The shares of the parts."""

    @property
    def records(self) -> int | None:
        """The stated number of records."""

    @property
    def users(self) -> int | None:
        """The stated number of users."""

    @property
    def by_users(self) -> bool:
        """Whether the units are users."""


def divide(ready: Splits, data: Divided, *, by: SplitBy, seed: int) -> Splits:
    """Divide the training records of `ready` by the public seed; a test part is kept."""
    if by == "hash":
        return divide_by_hash(ready, data, seed=seed)
    return divide_by_position(ready, data, seed=seed)


def divide_by_position(ready: Splits, data: Divided, *, seed: int) -> Splits:
    """Divide where the number of records is public."""
    records = len(cast(Sized, ready.train))
    if data.records not in (None, records):
        raise UsageError(
            f"data.records: expected the number of records in the data, {records}, "
            f"got {data.records}."
        )
    if data.by_users:
        return split_users(ready, data.split, users=data.users, seed=seed)
    return split_by_order(ready, data.split, seed=seed)


def divide_by_hash(ready: Splits, data: Divided, *, seed: int) -> Splits:
    """Divide so that a record's part depends on the seed and that record alone."""
    from dppipe.data.splitting.by_hash import draw_parts

    split = data.split
    train, val, test = draw_parts(ready.train, split, by_users=data.by_users, seed=seed)
    # Whether a part exists follows from its share, not from how many records fell into it.
    tested = ready.test
    if tested is None and split.test:
        tested = take(ready.train, test)
    validated = take(ready.train, val) if split.val else None
    return Splits(take(ready.train, train, last=True), validated, tested)
