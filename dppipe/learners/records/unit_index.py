"""The units of a dataset, and the records of each: what a sampler draws from.

The data says what its units are: examples, or users with their records. A sampler draws the numbers
of units, and the loader looks their records up here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy
from numpy.typing import NDArray

from dppipe.data.reading.users import users_of
from dppipe.errors import UsageError
from dppipe.learners.records.whole_units import UnitOf

if TYPE_CHECKING:
    from torch.utils.data import Dataset

Indices = NDArray[numpy.int64]


class UnitIndex(Protocol):
    """The records of each unit; units are numbered from 0."""

    count: int
    """The number of units."""
    at_most: int
    """The most records of one unit that are ever used: a public number."""
    unit_of: UnitOf | None
    """Returns the unit of each record; None where each record is its own unit."""

    def records(self, units: Indices) -> Indices:
        """Return the records of these units, unit by unit."""
        ...


class ExampleIndex:
    """Units of one record each, with the record's own number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.at_most = 1
        self.unit_of: UnitOf | None = None

    def records(self, units: Indices) -> Indices:
        """Return the records of these units: those of the same numbers."""
        return units


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
        self.count = len(counts)
        self.at_most = at_most
        self.unit_of: UnitOf | None = users.__getitem__

    def records(self, units: Indices) -> Indices:
        """Return the records of these users, user by user."""
        counts = self._counts[units]
        ends = numpy.cumsum(counts)
        total = ends[-1] if len(ends) else 0
        within = numpy.arange(total) - numpy.repeat(ends - counts, counts)
        chosen: Indices = self._records[numpy.repeat(self._starts[units], counts) + within]
        return chosen


def make_unit_index(dataset: Dataset[Any], *, records_per_user: int | None) -> UnitIndex:
    """Return the units of a dataset: users if a limit on their records is given, else examples."""
    if records_per_user is None:
        return ExampleIndex(len(dataset))  # type: ignore[arg-type]
    users = users_of(dataset)
    if users is None:
        raise UsageError(
            "sampler: expected data that says whose each record is, for sampler: user. "
            "Give it `users`."
        )
    return UserIndex(users, at_most=records_per_user)
