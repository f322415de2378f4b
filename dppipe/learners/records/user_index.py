"""The records of each user, for samplers that draw users.

A public limit says how many of a user's records are ever used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from dppipe.data.reading.users import users_of
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from torch.utils.data import Dataset

Indices = NDArray[numpy.int64]


class UserIndex:
    """The records of each user, in the order of the data.

    Guarantee: which of a user's records are used depends on that user's own records alone.
    """

    def __init__(self, users: Indices, *, at_most: int) -> None:
        # users: [records], each record's user, numbered from 0
        order = numpy.argsort(users, kind="stable")
        counts = numpy.bincount(users)
        starts = numpy.cumsum(counts) - counts
        rank = numpy.arange(len(users)) - starts[users[order]]
        self._records = order[rank < at_most]
        self._counts = numpy.minimum(counts, at_most)
        self._starts = numpy.cumsum(self._counts) - self._counts
        self.of = users
        """The user of each record."""
        self.count = len(counts)
        """The number of users."""

    def records(self, users: Indices) -> Indices:
        """Return the records of these users, user by user."""
        counts = self._counts[users]
        ends = numpy.cumsum(counts)
        total = ends[-1] if len(ends) else 0
        within = numpy.arange(total) - numpy.repeat(ends - counts, counts)
        chosen: Indices = self._records[numpy.repeat(self._starts[users], counts) + within]
        return chosen

    def user_of(self, records: Indices) -> Indices:
        """Return the user of each record."""
        found: Indices = self.of[records]
        return found


def user_index(dataset: Dataset[Any], *, at_most: int) -> UserIndex:
    """Return the users of a dataset that names the user of each record."""
    users = users_of(dataset)
    if users is None:
        raise UsageError(
            "sampler: expected data that says whose each record is, for sampler: user. "
            "Give it `users`."
        )
    return UserIndex(users, at_most=at_most)
