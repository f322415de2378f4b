"""What several equal releases cost together, by whichever accountant bounds them best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dppipe.privacy.accountants import Advanced, Pld, Rdp, Zcdp
from dppipe.privacy.budget import Relation
from dppipe.privacy.rounding import UNIT

_UPWARD = 1 + 1024 * UNIT
"""More than the conversion of rho is rounded by; other accountants round up themselves."""


@dataclass(frozen=True)
class Together:
    """The epsilon of so many releases, and the accountant that has the least."""

    epsilon: float
    accountant: str
    count: int


def cost_together(
    event: Any, counts: Sequence[int], *, delta: float, relation: Relation
) -> list[Together]:
    """Return the least certified epsilon of each number of equal releases.

    Guarantee: each accountant that is asked gives a proven upper bound, so the least is one too.
    """
    best = [Together(math.inf, "", count) for count in counts]
    for accountant in (Pld(), Rdp(), Zcdp(), Advanced()):
        spent = accountant.curve([(event, counts[-1])], counts, delta=delta, relation=relation)
        for place, epsilon in enumerate(spent):
            raised = epsilon * _UPWARD if accountant.kind == "zcdp" else epsilon
            if raised < best[place].epsilon:
                best[place] = Together(raised, accountant.kind, counts[place])
    return best
