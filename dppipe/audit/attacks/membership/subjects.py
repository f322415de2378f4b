"""Who is attacked: members and non-members of a run, drawn by a public seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.attacks.records import Records
    from dppipe.audit.attacks.victim import Victim


@dataclass(frozen=True)
class Subjects:
    """The records that are attacked, and all records that shadow models may train on."""

    pool: Records
    """The run's training records, then its holdout."""
    rows: NDArray[numpy.int64]  # [attacked]
    """Where the attacked records stand in the pool: members, then non-members."""
    members: int
    """How many of the attacked are members."""

    @property
    def attacked(self) -> Records:
        """The attacked records."""
        return self.pool.take(self.rows)

    @property
    def are_members(self) -> NDArray[numpy.bool_]:  # [attacked]
        """Whether each attacked record is a member."""
        return numpy.arange(len(self.rows)) < self.members


def choose_subjects(victim: Victim, *, most: int) -> Subjects:
    """Return at most so many members and non-members; of a user one record is taken.

    Records of one user are in or out together, so that two of them are no two draws.
    """
    members, holdout = victim.records
    seed = victim.spec.seed
    inside = members.one_of_each_unit(most, seed=seed)
    outside = holdout.one_of_each_unit(most, seed=seed)
    pool = members.together_with(holdout)
    rows = numpy.concatenate([inside, outside + len(members)])
    return Subjects(pool, rows, len(inside))
