"""What an accountant is: from a sequence of privacy events to a bound on what they cost together.

Accountants only consume values; they know no sampler, optimizer or clock. What they give is one of two types: a
`Certificate` is a proven upper bound, an `Estimate` (CLT, asymptotics) is not, and `require_certificate` is the one door
through which a composition becomes a guarantee. Read next: `rdp.py`, then `pld.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dppipe.component import Component
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps, between, merge
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    pass

_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8)


class PrivacyCurve(Protocol):
    """One privacy curve, readable in both directions."""

    def epsilon(self, delta: float) -> float:
        """Give the epsilon at this delta; infinite where none is known."""
        ...

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Give what the curve was computed from, as plain data for the statement."""
        ...


@dataclass(frozen=True)
class _Cost:
    """What a sequence of events costs together."""

    certified: ClassVar[bool]

    accountant: str
    relation: Relation
    curve: PrivacyCurve

    def epsilon(self, delta: float) -> float:
        """Give the epsilon at this delta, at least 0; infinite where none is known."""
        if isinstance(delta, bool) or not 0 < delta < 1:
            raise PrivacyRefusal(f"delta: expected a number between 0 and 1, got {delta!r}.")
        return self._checked("epsilon", self.curve.epsilon(float(delta)))

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon, between 0 and 1."""
        if isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
            raise PrivacyRefusal(f"epsilon: expected a finite number >= 0, got {epsilon!r}.")
        return min(1.0, self._checked("delta", self.curve.delta(float(epsilon))))

    def points(self, deltas: Sequence[float] = _DELTAS) -> dict[str, Any]:
        """Give the whole curve as plain data: epsilon (rounded up) at several deltas, and the curve's own parameters."""
        pairs = [(delta, round_up(self.epsilon(delta), 5)) for delta in deltas]
        known = [(delta, epsilon) for delta, epsilon in pairs if math.isfinite(epsilon)]
        return {
            "deltas": [delta for delta, _ in known],
            "epsilons": [epsilon for _, epsilon in known],
            **self.curve.parameters(),
        }

    def _checked(self, name: str, value: float) -> float:
        if math.isnan(value):
            raise PrivacyRefusal(
                f"{self.accountant}: expected {name} to be a number, got NaN. These events can't be accounted."
            )
        return max(0.0, float(value))


@dataclass(frozen=True)
class Certificate(_Cost):
    """A proven upper bound on what a sequence of events costs.

    Guarantee: doing exactly these events, fixed before any record was read, is (`epsilon(delta)`, delta)-differentially
    private under `relation`, for every delta.
    """

    certified: ClassVar[bool] = True


@dataclass(frozen=True)
class Estimate(_Cost):
    """An approximation of what a sequence of events costs; the true cost may be higher."""

    certified: ClassVar[bool] = False


Composition = Certificate | Estimate


def require_certificate(composition: Composition) -> Certificate:
    """Pass a certificate through and refuse an estimate."""
    if isinstance(composition, Certificate):
        return composition
    raise PrivacyRefusal(
        f"accountant: expected a proven bound, got an estimate by {getattr(composition, 'accountant', 'nobody')!r}. "
        "Take accountant: rdp, which has one; an estimate may be looked at (dppipe account, dppipe plan), never promised."
    )


class Accountant(Component):
    """From what is done to what it costs.

    Guarantee: where `compose` gives a `Certificate`, its `epsilon(delta)` is a proven upper bound under the given relation for
    events that were fixed before any record was read. An event or relation it can't bound is refused, never guessed.
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Composition:
        """Bound the cost of doing all these steps; refuse (PrivacyRefusal) what can't be bounded."""
        (composition,) = self.compositions([merge(steps)], relation=relation)
        return composition

    def curve(
        self, steps: Steps, at: Sequence[int], *, delta: float, relation: Relation
    ) -> list[float]:
        """Give epsilon after each of the step counts `at` (ascending, up to the number of steps)."""
        stages = [merge(between(steps, low, high)) for low, high in zip([0, *at], at, strict=False)]
        return [
            composition.epsilon(delta)
            for composition in self.compositions(stages, relation=relation)
        ]

    curve_points: ClassVar[int] = 60
    """At how many points of a run a plan asks for epsilon: at each of its tenths, and between them where that is cheap."""

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Bound the cost after each stage, where a stage adds its events to all those before it: what a kind implements."""
        raise NotImplementedError

    distinct: ClassVar[int | None] = None
    """The most distinct events that are added up; of a longer schedule noise is rounded down onto as many. None: no limit."""

    def rounding_cost(self, steps: Steps, *, delta: float, relation: Relation) -> float:
        """Bound what rounding a long schedule onto fewer events adds to epsilon; 0 where nothing is rounded.

        The same schedule with its noise rounded up, by a little more, costs no more than the given one: so the distance of the
        two bounds what rounding costs.
        """
        from dppipe.privacy.events.coarsening import coarsened

        counts = merge(steps)
        if self.distinct is None or len(counts) <= self.distinct:
            return 0.0
        (up,), _ = coarsened([counts], distinct=self.distinct * 9 // 10, up=True)
        spent, least = (
            self.compositions([each], relation=relation)[0].epsilon(delta) for each in (counts, up)
        )
        return max(0.0, spent - least) if math.isfinite(spent) else 0.0

    def rough(self) -> Accountant:
        """Give a cheaper accountant whose epsilon is near this one's, from which a search may start; else itself."""
        return self
