"""A charge: what one release costs, as a row of the ledger keeps it.

Rows of steps have the fields of `STEP_FACTS`; rows of other releases say what they are and carry
facts of their own. Read next: `ledger_rows.py`, which writes charges as bytes and reads them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dppipe.privacy.budget import Relation
from dppipe.privacy.release import Fact

if TYPE_CHECKING:
    from dp_accounting import DpEvent

VERSION = 2
"""The version of the rows that are written now; rows without a version are of version 1."""
STEP_FACTS = (
    "step",
    "mechanism",
    "sampler",
    "sample_rate",
    "noise_multiplier",
    "max_grad_norm",
)
"""The facts of a step."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one release costs, as the ledger keeps it."""

    what: str = "step"
    event: DpEvent
    relation: Relation
    unit: str
    count: int
    """How many times the event is charged: 1, or 0 on the steps of an epoch that its first step has
    paid for."""
    epsilon: float
    """A certified upper bound on all charges up to this one, at the budget's delta."""
    facts: Mapping[str, Fact]
    """What is shown of the release; a step has all of `STEP_FACTS`."""
    covered_by: str | None = None
    """The hash of the row, in another ledger, that has paid for this release; its count is 0."""
    version: int = VERSION
    """The version of the row's format."""

    @property
    def step(self) -> int:
        """The number of the step, from 1; 0 for a release that isn't a step."""
        return int(self.facts["step"]) if self.what == "step" else 0

    @property
    def sample_rate(self) -> float:
        """The sample rate of a step."""
        return float(self.facts["sample_rate"])

    @property
    def noise_multiplier(self) -> float:
        """The accounted noise multiplier of a step."""
        return float(self.facts["noise_multiplier"])

    @property
    def max_grad_norm(self) -> float:
        """The clipping bound of a step."""
        return float(self.facts["max_grad_norm"])


def charged_steps(charges: Iterable[Charge]) -> list[tuple[DpEvent, int]]:
    """Return what was charged as steps for an accountant.

    Each is an event and how many times it was charged in a row.
    """
    steps: list[tuple[DpEvent, int]] = []
    for event, run in groupby(charges, key=lambda charge: charge.event):
        count = sum(charge.count for charge in run)
        if count:
            steps.append((event, count))
    return steps
