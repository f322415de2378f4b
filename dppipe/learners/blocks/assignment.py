"""Which block each record is in: by its place, or by a hash where the number of records is secret.

Under `zero_out` and `replace_one` the units are put in an order that follows from their number and
the public seed, and are dealt to the blocks in turn: sizes are equal up to one unit. Under
`add_remove` taking out one unit would deal all later ones to other blocks. There a hash of the
record, or of its user's id, decides, and sizes vary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from dppipe.data.reading.users import users_of
from dppipe.data.splitting.by_hash import HashKey, hash_places
from dppipe.data.splitting.by_position import draw_order
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from dppipe.privacy.release import PublicFacts

_PURPOSE = b"dppipe blocks 1"
"""Makes blocks independent of the split into training and validation records."""
NO_BLOCK = -1
"""The number of a record that is in no block."""


def block_numbers(
    dataset: Dataset[Any], facts: PublicFacts, *, count: int
) -> NDArray[numpy.int64]:  # -> [records]
    """Return the block of each record, from 0 to `count - 1`.

    Guarantees:
    - A record is in one block, and all records of a user are in the same one where users are the
      unit.
    - Under `zero_out` and `replace_one`, blocks follow from the number of units and the public seed
      alone. A record that can't be used keeps its place. A user's place is its rank among the ids:
      what a neighbour changes is the user's records, not the id.
    - Under `add_remove`, a record's block follows from the record (the user's id) and the seed
      alone. One that can't be read or is marked as invalid is in no block.
    """
    by_users = facts.unit == "user"
    key = HashKey(facts.seed, _PURPOSE)
    if facts.relation == "add_remove":
        places = hash_places(dataset, key, by_users=by_users)
        # Rounded down, a number below 1 times the count is below the count; NaN becomes NO_BLOCK.
        return numpy.nan_to_num(numpy.floor(places * count), nan=NO_BLOCK).astype(numpy.int64)
    owners = _owners(dataset, by_users=by_users)
    units = int(owners.max(initial=-1)) + 1
    order = draw_order(units, seed=int.from_bytes(key.digest(b"order"), "little"))
    dealt = numpy.empty(units, dtype=numpy.int64)
    dealt[order] = numpy.arange(units) % count
    return dealt[owners]


def _owners(dataset: Dataset[Any], *, by_users: bool) -> NDArray[numpy.int64]:  # -> [records]
    """Return the number of each record's unit."""
    if not by_users:
        return numpy.arange(len(dataset))  # type: ignore[arg-type]
    users = users_of(dataset)
    if users is None:
        raise UsageError(
            "data.users: expected a dataset that says whose each record is, got one that doesn't. "
            "Leave it out."
        )
    return users
