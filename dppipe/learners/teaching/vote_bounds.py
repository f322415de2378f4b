"""How far one unit moves the votes of teachers, and what a query costs for it.

Each teacher is trained on one block of the records, and gives each input one vote for one class, or
none. So a unit, which is in one block, changes the votes of one teacher: at each input one vote
moves from a class to another, appears or disappears. Let v be the counts of an input's votes, one
for each class. Then, whatever the unit is changed to:

    |v - v'|_2 <= sqrt(2),   |v - v'|_1 <= 2,   |max v - max v'| <= 1.

The first two are the norms of e_i - e_j, e_i or -e_j, where e_i is 1 at class i and 0 elsewhere.
For the third, no count moves by more than 1. A unit that is replaced changes one block too, so
these bounds hold under `replace_one` as they stand. There accountants count a unit at twice the
sensitivity of a presence, so half of each is stated, and the noise is the same.

Nothing here needs torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation
    from dppipe.privacy.release import PublicFacts

Noise = Literal["gaussian", "laplace"]

MOVED_VOTES = {"gaussian": math.sqrt(2) * (1 + 2.0**-40), "laplace": 2.0}
"""How far the counts of one input move: in the Euclidean norm, and in the sum of absolute values.

The slack covers that a product of the multiplier and this number is rounded.
"""
MOVED_LARGEST = 1.0
"""How far the largest count of one input moves."""


def classes_of(facts: PublicFacts) -> int:
    """Return the number of classes that the spec states; labels have no say in it."""
    return 2 if facts.task == "binary" else facts.outputs


@dataclass(frozen=True)
class Query:
    """What one query costs: noise of a scale, on something that one unit moves by at most `moved`.

    Guarantee: the event's multiplier times the sensitivity is the scale, and an accountant that
    counts the sensitivity as that of a presence under the relation counts `moved`.
    """

    noise: Noise
    scale: float
    """The standard deviation of Gaussian noise, or the scale of Laplace noise."""
    moved: float
    relation: Relation

    @property
    def sensitivity(self) -> float:
        """The sensitivity to state: accountants double it for a unit that is replaced."""
        return self.moved / 2 if self.relation == "replace_one" else self.moved

    def event(self) -> DpEvent:
        """Return the event of one query."""
        from dppipe.privacy.events.mechanisms import gaussian, laplace

        make = laplace if self.noise == "laplace" else gaussian
        return make(self.scale / self.sensitivity)
