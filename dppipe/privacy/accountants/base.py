"""What an accountant is: from a sequence of privacy events to a bound on what they cost together.

Accountants only consume values; they know no sampler, optimizer or clock. What they give is one of
two types: a `Certificate` is a proven upper bound, an `Estimate` (CLT, asymptotics) is not, and
`require_certificate` is the one door through which a composition becomes a guarantee. Read next:
`rdp.py`, then `pld.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from dppipe.component import Component
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps, between, merge
from dppipe.privacy.rounding import round_up

_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8)


class PrivacyCurve(Protocol):
    """One privacy curve, readable in both directions."""

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta; infinite where none is known."""
        ...

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Return what the curve was computed from, as plain data for the statement."""
        ...


@dataclass(frozen=True)
class _Cost:
    """What a sequence of events costs together."""

    certified: ClassVar[bool]

    accountant: str
    relation: Relation
    curve: PrivacyCurve

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta, at least 0; infinite where none is known."""
        if isinstance(delta, bool) or not 0 < delta < 1:
            raise PrivacyRefusal(f"delta: expected a number between 0 and 1, got {delta!r}.")
        return self._checked("epsilon", self.curve.epsilon(float(delta)))

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon, between 0 and 1."""
        if isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
            raise PrivacyRefusal(f"epsilon: expected a finite number >= 0, got {epsilon!r}.")
        return min(1.0, self._checked("delta", self.curve.delta(float(epsilon))))

    def points(self) -> dict[str, Any]:
        """Return the whole curve as plain data: epsilon at several deltas, and its parameters.

        Each epsilon is rounded up.
        """
        known: list[float] = []
        epsilons: list[float] = []
        for delta in _DELTAS:
            epsilon = round_up(self.epsilon(delta), 5)
            if math.isfinite(epsilon):
                known.append(delta)
                epsilons.append(epsilon)
        return {"deltas": known, "epsilons": epsilons, **self.curve.parameters()}

    def _checked(self, name: str, value: float) -> float:
        if math.isnan(value):
            raise PrivacyRefusal(
                f"{self.accountant}: expected {name} to be a number, got NaN. These events can't "
                "be accounted."
            )
        return max(0.0, float(value))


@dataclass(frozen=True)
class Certificate(_Cost):
    """A proven upper bound on what a sequence of events costs.

    Guarantee: doing exactly these events, fixed before any record was read, is (`epsilon(delta)`,
    delta)-differentially private under `relation`, for every delta.
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
        "accountant: expected a proven bound, got an estimate by "
        f"{getattr(composition, 'accountant', 'nobody')!r}. "
        "Take accountant: rdp, which has one; an estimate may be looked at (dppipe account, "
        "dppipe plan), never promised."
    )


class Accountant(Component):
    """From what is done to what it costs.

    Guarantee: where `compose` gives a `Certificate`, its `epsilon(delta)` is a proven upper bound
    under the given relation for events that were fixed before any record was read. An event or
    relation it can't bound is refused, never guessed.

    Example:
        >>> from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
        >>> from dppipe.privacy.accountants import Pld
        >>> step = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0))
        >>> cost = Pld().compose([(step, 1000)], relation="zero_out")
        >>> cost.certified, round(cost.epsilon(1e-5), 3)
        (True, 1.828)
    """

    def compose(self, steps: Steps, *, relation: Relation) -> Composition:
        """Bound the cost of all these steps; refuse what can't be bounded."""
        (composition,) = self.compositions([merge(steps)], relation=relation)
        return composition

    def curve(
        self, steps: Steps, at: Sequence[int], *, delta: float, relation: Relation
    ) -> list[float]:
        """Return epsilon after each of the step counts `at`, in ascending order."""
        stages = []
        low = 0
        for high in at:
            stages.append(merge(between(steps, low, high)))
            low = high
        compositions = self.compositions(stages, relation=relation)
        return [composition.epsilon(delta) for composition in compositions]

    curve_points: ClassVar[int] = 256
    """At how many points of a run a plan states epsilon, if the kind doesn't choose them."""

    def spending(
        self,
        steps: Steps,
        at: Sequence[int],
        *,
        delta: float,
        relation: Relation,
        before: Steps = (),
        rounding: bool = True,
    ) -> list[tuple[int, float]]:
        """Return step counts with epsilon after them: `at` among them, and many between.

        The epsilon of the next point is an upper bound at every step before it. Kinds for which
        that is cheap choose the points so that it is close, too.

        Args:
            steps: What is done, in order.
            at: Counts that are among the points, in ascending order; the last is all steps.
            delta: Where epsilon is read.
            relation: What neighbouring datasets differ in.
            before: Events before the first step.
            rounding: Whether a long schedule may be rounded as coarsely as a claim is.
        """
        last = at[-1]
        points = self.curve_points
        counts = {*at, *(math.ceil(last * k / points) for k in range(1, points + 1))}
        stages = []
        low = 0
        for high in sorted(counts):
            stages.append(merge([*before, *between(steps, low, high)]))
            before = ()
            low = high
        found = self.compositions(stages, relation=relation)
        epsilons = [composition.epsilon(delta) for composition in found]
        return list(zip(sorted(counts), epsilons, strict=True))

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        """Bound the cost after each stage, which adds its events to all those before it.

        Each kind implements this.
        """
        raise NotImplementedError

    distinct: ClassVar[int | None] = None
    """The most distinct events that are added up; of a longer schedule noise is rounded down onto
    as many. None: no limit."""

    def rounding_cost(self, steps: Steps, *, delta: float, relation: Relation) -> float:
        """Bound what rounding a long schedule adds to epsilon; 0 where nothing is rounded.

        The same schedule with its noise rounded up, by a little more, costs no more than the given
        one: so the distance of the two bounds what rounding costs.
        """
        from dppipe.privacy.events.coarsening import coarsened

        counts = merge(steps)
        if self.distinct is None or len(counts) <= self.distinct:
            return 0.0
        (up,), _ = coarsened([counts], distinct=self.distinct * 9 // 10, up=True)
        (given,) = self.compositions([counts], relation=relation)
        (cheaper,) = self.compositions([up], relation=relation)
        spent = given.epsilon(delta)
        if not math.isfinite(spent):
            return 0.0
        return max(0.0, spent - cheaper.epsilon(delta))

    def rough(self) -> Accountant:
        """Return a cheaper accountant from which a search may start; else itself.

        Its epsilon is near this one's.
        """
        return self
