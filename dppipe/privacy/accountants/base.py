"""What an accountant is: from a sequence of privacy events to a bound on what they cost together.

Accountants only consume values; they know no sampler, optimizer or clock. One that gives a proven upper bound certifies;
an asymptotic one is an estimate and can't end a run as a guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from dppipe.component import Component
from dppipe.privacy.budget import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Steps = Sequence[tuple["DpEvent", int]]
"""What is done, in order: each event and how many times it is done in a row."""


class Composition(Protocol):
    """What a sequence of events costs together."""

    def epsilon(self, delta: float) -> float:
        """Give the epsilon at this delta; infinite where none is proven."""
        ...

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        ...


class Accountant(Component):
    """From what is done to what it costs.

    Guarantee: where `certified`, `compose(steps).epsilon(delta)` is a proven upper bound, under the given relation, for
    events that were fixed before any record was read. An event or relation it can't bound is refused, never guessed.
    """

    certified: ClassVar[bool] = True

    def compose(self, steps: Steps, *, relation: Relation) -> Composition:
        """Bound the cost of doing all these steps; refuse (PrivacyRefusal) what can't be bounded."""
        raise NotImplementedError

    def curve(self, steps: Steps, at: Sequence[int], *, delta: float, relation: Relation) -> list[float]:
        """Give epsilon after each of the step counts `at` (ascending, up to the number of steps)."""
        raise NotImplementedError  # a default over `compose`, made cheaper where the accountant can
