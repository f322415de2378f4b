"""Neighbouring data for each relation and unit: one record, or one user, whose gradients are larger than any bound."""

from __future__ import annotations

from typing import NamedTuple

from connections.kinds import RECORDS, USERS, Combination
from redteam.neighbours import replaced
from redteam.records import EMPTY, HARMFUL, Records, ordinary
from redteam.staging import Data

AT = 11
"""Where the record stands: a place that every sampler draws in the first two steps. Users take turns."""


class Neighbours(NamedTuple):
    """Two data sets that differ in one unit."""

    first: Data
    second: Data


def neighbours(combination: Combination) -> Neighbours:
    """Return the data of a combination's two runs."""
    relation = combination.relation
    by_users = combination.sampler == "user"
    mine = {
        place
        for place in range(RECORDS)
        if place == AT or (by_users and place % USERS == AT % USERS)
    }
    first = [HARMFUL["large"] if place in mine else ordinary(place) for place in range(RECORDS)]
    owners = [place % USERS for place in range(RECORDS)]
    second = first
    for place in sorted(mine, reverse=True):
        second = replaced(second, place, relation, empty=EMPTY, ordinary=ordinary(1000 + place))
    others = owners
    if relation == "add_remove":
        others = [owner for place, owner in enumerate(owners) if place not in mine]
    return Neighbours(
        _data(first, owners if by_users else None), _data(second, others if by_users else None)
    )


def _data(examples: list, owners: list[int] | None) -> Data:
    return Data(
        Records(examples, owners), Records([ordinary(number) for number in range(100, 104)])
    )
