"""The records of an inversion: members, as many others, and those that the attacker owns.

Others and the attacker's own are the two halves of the holdout, by a public seed: a prior that was
counted on the records it is judged by would flatter them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from dppipe.audit.attacks.records import Records
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.audit.attacks.victim import Victim

_FEWEST = 4
"""How many records a holdout needs."""


@dataclass(frozen=True)
class Sides:
    """Who is compared with whom; members and others are as many."""

    members: Records
    others: Records
    """Records that weren't trained on."""
    own: Records
    """What the attacker has: records of the same source that weren't trained on."""


def take_sides(victim: Victim, *, most: int, seed: int) -> Sides:
    """Return members, others and the attacker's own records, one of each unit."""
    holdout = victim.records.holdout
    if len(holdout) < _FEWEST:
        raise UsageError(
            f"data.split: expected at least {_FEWEST} records in the holdout, half of which the "
            f"attacker owns, got {len(holdout)}. Give `val` or `test` a larger share."
        )
    order = numpy.random.default_rng(seed).permutation(len(holdout))
    half = len(holdout) // 2
    others = holdout.take(order[:half])
    members = victim.records.members
    count = min(most, len(set(members.units.tolist())), len(set(others.units.tolist())))
    return Sides(
        members.take(members.one_of_each_unit(count, seed=seed)),
        others.take(others.one_of_each_unit(count, seed=seed)),
        holdout.take(order[half:]),
    )
