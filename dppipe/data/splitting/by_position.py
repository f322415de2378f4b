"""The split where the number of records is public: by position, in an order drawn from the seed."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, cast

from dppipe.data.reading.users import check_users, users_of, with_users
from dppipe.data.splitting.parts import Split, Splits, take

if TYPE_CHECKING:
    import numpy


def split_by_order(ready: Splits, split: Split, *, seed: int) -> Splits:
    """Split the training records of `ready` by the seed; a test part that is there is kept."""
    records = len(cast(Sized, ready.train))
    train, val, test = _shares(records, split, seed=seed)
    return _make_splits(ready, train, val, test)


def split_users(ready: Splits, split: Split, *, users: int | None, seed: int) -> Splits:
    """Split the users by the seed, each with all records.

    The training dataset keeps its records' users. `users` is the stated number of users, where it
    is public.
    """
    import numpy

    owners = check_users(users_of(ready.train), stated=users)
    parts = []
    for share in _shares(int(owners.max()) + 1, split, seed=seed):
        parts.append(numpy.flatnonzero(numpy.isin(owners, share)))
    train, val, test = parts
    made = _make_splits(ready, train, val, test)
    return made._replace(train=with_users(made.train, owners[train]))


def draw_order(records: int, *, seed: int) -> numpy.ndarray:  # [records] of int64
    """Return a permutation by the seed alone.

    The raw bits of PCG64 never change between versions, so a split doesn't either.
    """
    import numpy

    return numpy.argsort(numpy.random.PCG64(seed % 2**64).random_raw(records), kind="stable")


def _shares(
    count: int, split: Split, *, seed: int
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Return which of `count` records, or users, are trained on, validate and test."""
    order = draw_order(count, seed=seed)
    train, val, test = split.counts(count)
    return order[:train], order[train : train + val], order[train + val :][:test]


def _make_splits(
    ready: Splits, train: numpy.ndarray, val: numpy.ndarray, test: numpy.ndarray
) -> Splits:
    tested = ready.test
    if tested is None and len(test):
        tested = take(ready.train, test)
    validated = take(ready.train, val) if len(val) else None
    return Splits(take(ready.train, train, last=True), validated, tested)
