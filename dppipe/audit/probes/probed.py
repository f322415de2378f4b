"""What the probes of noised sums need of a subject: a step of DP-SGD, or another learner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.audit.probes.canaries import Canary
    from dppipe.audit.probes.made_up_records import MadeUpRecords
    from dppipe.audit.probes.step_claim import StepClaim
    from dppipe.planning.plan import Plan


class Draws(Protocol):
    """A release that can be drawn again and again."""

    def draw(self) -> Tensor:
        """Return noisy sums, in float64."""
        ...

    def claim(self) -> StepClaim:
        """Return what is claimed of each of them."""
        ...

    def seconds_each(self) -> float:
        """Return how long a draw takes."""
        ...


class Probed(Protocol):
    """Something whose releases are noised sums."""

    @property
    def multiplier(self) -> float:
        """The noise multiplier."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan of what is audited."""
        ...

    def canaries(self) -> list[Canary]:
        """Return canaries."""
        ...

    def full(self, *, others: int, steps: int, silent: bool = False) -> tuple[MadeUpRecords, Draws]:
        """Return records and a release of all of them, the canary's among them."""
        ...
