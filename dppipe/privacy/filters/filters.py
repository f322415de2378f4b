"""Privacy filters: sums that hold even where steps follow released values.

Where the next step is chosen after seeing what was released, only certain sums prove anything. A
filter fixes two numbers before anything is released, its capacity, and lets a mechanism run only if
the sum of all costs stays within them. Under such full adaptivity composed PLD curves certify
nothing (Rogers et al. 2016 define the notion); one Renyi order, zCDP, and (epsilon, delta)
certificates do. Every filter here adds up an `amount` and a `delta`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dppipe.component import Field, Options
from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import rule_of
from dppipe.privacy.events.sequences import Steps, merge

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_ORDERS = (
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    *(float(order) for order in range(3, 129)),
    192.0,
    256.0,
    384.0,
    512.0,
    768.0,
    1024.0,
)
_ALL_ORDERS = tuple(1 + 10 ** (k / 50) for k in range(-100, 301))
"""For what is known at every order at once: from 1.01 to a million."""


@dataclass(frozen=True)
class Amount:
    """What a filter adds up: its own measure, and delta where certificates bring one along."""

    amount: float = 0.0
    delta: float = 0.0

    def fits(self, capacity: Amount) -> bool:
        """Whether this is within a capacity; what isn't a number never is."""
        return self.amount <= capacity.amount and self.delta <= capacity.delta


@dataclass(frozen=True)
class Commitment:
    """The most that a run may do: its steps, and its plan's certificate for all of them."""

    steps: Steps
    relation: Relation
    unit: str
    epsilon: float
    delta: float
    takes_steps: bool = True
    """Whether the run could take fewer of them; other learners need all their releases."""


class Filter(Options):
    """A rule that keeps adaptively chosen runs within one (epsilon, delta).

    Guarantee: if the sum of the costs of everything that was ever started stays within `capacity`,
    all of it together is (epsilon, delta)-differentially private, however each was chosen from what
    the earlier ones released.
    """

    kind: ClassVar[str]
    refunds: ClassVar[bool]
    """Whether a run that was stopped pays only for the steps that it did."""

    def capacity(self, *, epsilon: float, delta: float) -> Amount:
        """Return the most that costs may add up to."""
        raise NotImplementedError

    def cost(self, run: Commitment) -> Amount:
        """Return what a run adds; refuse (PrivacyRefusal) what the filter has no proof for."""
        raise NotImplementedError

    def epsilon(self, used: Amount, *, delta: float) -> float:
        """Return the epsilon at `delta` that costs of `used` convert to.

        It is the converse of `capacity`, and shows how far a budget is used. It is no claim: the
        proof covers the capacity, which was fixed first, not the moment at which someone looks.
        """
        raise NotImplementedError

    def largest_certificate(self, room: Amount) -> float:
        """Return the largest epsilon of one more run where certificates add up; else 0."""
        return 0.0

    def to_data(self) -> dict[str, Any]:
        """Return plain data that `read_filter` reads back."""
        return {"kind": self.kind, **self.model_dump(mode="json")}


class RdpFilter(Filter):
    """Adds up Renyi divergences at one order (Feldman and Zrnic 2021; Lecuyer 2021).

    Guarantee: the order is fixed before the first run; taking the best order afterwards would prove
    nothing. The sum converts to (epsilon, delta) by Canonne, Kamath and Steinke (2020, proposition
    12).
    """

    kind: ClassVar[str] = "rdp"
    refunds: ClassVar[bool] = True

    order: float = Field(gt=1, description="The Renyi order at which costs are added up.")

    def capacity(self, *, epsilon: float, delta: float) -> Amount:
        """Return the most that the divergences may add up to."""
        return Amount(_room(self.order, epsilon=epsilon, delta=delta))

    def epsilon(self, used: Amount, *, delta: float) -> float:
        """Convert the divergence at the filter's order."""
        return used.amount - _room(self.order, epsilon=0.0, delta=delta)

    def cost(self, run: Commitment) -> Amount:
        """Add up the divergences of a run's steps."""
        from dppipe.privacy.rdp.divergences import divergences

        counts = merge(run.steps)
        costs: list[float] = []
        for event, count in counts.items():
            (divergence,) = divergences(event, relation=run.relation, orders=(self.order,))
            costs.append(count * float(divergence))
        return Amount(math.fsum(costs))


class ZcdpFilter(Filter):
    """Adds up zero-concentrated privacy, for runs without sampling.

    See Feldman and Zrnic (2021) and Whitehouse et al. (2023).

    Guarantee: zCDP is not amplified by sampling, so a sampled event is refused. All runs together
    are rho-zCDP, which bounds every order at once; so the capacity is the largest rho that some
    order converts to (epsilon, delta).
    """

    kind: ClassVar[str] = "zcdp"
    refunds: ClassVar[bool] = True

    def capacity(self, *, epsilon: float, delta: float) -> Amount:
        """Return the most that rho may add up to."""
        return Amount(
            max(_room(order, epsilon=epsilon, delta=delta) / order for order in _ALL_ORDERS)
        )

    def epsilon(self, used: Amount, *, delta: float) -> float:
        """Convert rho at the order that is best for it."""
        rho = used.amount
        return min(rho * order - _room(order, epsilon=0.0, delta=delta) for order in _ALL_ORDERS)

    def cost(self, run: Commitment) -> Amount:
        """Add up rho over a run's steps."""
        counts = merge(run.steps)
        return Amount(
            math.fsum(count * _rho(event, relation=run.relation) for event, count in counts.items())
        )


class BasicFilter(Filter):
    """Adds up the epsilons and deltas that runs are certified with (Rogers et al. 2016).

    Guarantee: a run's certificate is that of its whole plan, so a run that was stopped pays for all
    of it.
    """

    kind: ClassVar[str] = "basic"
    refunds: ClassVar[bool] = False

    def capacity(self, *, epsilon: float, delta: float) -> Amount:
        """Return the scope's own epsilon and delta."""
        return Amount(epsilon, delta)

    def epsilon(self, used: Amount, *, delta: float) -> float:
        """Return the sum of the epsilons."""
        return used.amount

    def cost(self, run: Commitment) -> Amount:
        """Return the run's certificate."""
        return Amount(*_certificate(run))

    def largest_certificate(self, room: Amount) -> float:
        """Return what is left of epsilon."""
        return room.amount


class AdvancedFilter(Filter):
    """Adds up the squares of the epsilons that runs are certified with (Whitehouse et al. 2023).

    Guarantee: runs stop before sqrt(2 ln(1/d) S) + S/2 exceeds epsilon, S the sum of the squares, d
    the share of delta that is set aside; the deltas of the runs add up to the rest. A run that was
    stopped pays for its whole plan.
    """

    kind: ClassVar[str] = "advanced"
    refunds: ClassVar[bool] = False

    set_aside: float = Field(
        0.5, gt=0, lt=1, description="The share of delta that the filter itself uses."
    )

    def capacity(self, *, epsilon: float, delta: float) -> Amount:
        """Solve the theorem's inequality for the sum of squares."""
        slope = math.sqrt(2 * math.log(1 / (self.set_aside * delta)))
        root = 2 * epsilon / (math.sqrt(slope**2 + 2 * epsilon) + slope)
        return Amount(root**2, (1 - self.set_aside) * delta)

    def epsilon(self, used: Amount, *, delta: float) -> float:
        """Evaluate the theorem at the sum of squares."""
        slope = math.sqrt(2 * math.log(1 / (self.set_aside * delta)))
        return slope * math.sqrt(used.amount) + used.amount / 2

    def cost(self, run: Commitment) -> Amount:
        """Return the square of the run's epsilon, and its delta."""
        epsilon, delta = _certificate(run)
        return Amount(epsilon**2, delta)

    def largest_certificate(self, room: Amount) -> float:
        """Return the root of what is left of the squares."""
        return math.sqrt(room.amount)


FILTERS: dict[str, type[Filter]] = {
    cls.kind: cls for cls in (RdpFilter, ZcdpFilter, BasicFilter, AdvancedFilter)
}


def read_filter(data: dict[str, Any]) -> Filter:
    """Read a filter from the plain data that `to_data` returns."""
    options = dict(data)
    kind = options.pop("kind", None)
    if kind not in FILTERS:
        raise PrivacyRefusal(f"filter: expected one of {', '.join(FILTERS)}, got {kind!r}.")
    return FILTERS[kind].from_data(options)


def best_order(*, epsilon: float, delta: float, like: Commitment | None = None) -> float:
    """Return the order that leaves most room for runs like `like`.

    Without one, it is an order that suits most sampled runs. Above some order the divergence of a
    sampled step jumps up, so the order that is best for Gaussian noise alone (whose divergence is
    in proportion to the order) would leave almost no room: two thirds of the way lose little on
    either side.
    """
    if like is not None:
        return max(_ORDERS, key=lambda order: _runs(like, order, epsilon=epsilon, delta=delta))
    best = max(_ORDERS, key=lambda order: _room(order, epsilon=epsilon, delta=delta) / order)
    return min(_ORDERS, key=lambda order: abs(order - (1 + (best - 1) * 2 / 3)))


def _runs(like: Commitment, order: float, *, epsilon: float, delta: float) -> float:
    """Return how many runs like this one fit at an order."""
    cost = RdpFilter(order=order).cost(like).amount
    return _room(order, epsilon=epsilon, delta=delta) / cost


def _room(order: float, *, epsilon: float, delta: float) -> float:
    return epsilon - math.log1p(-1 / order) + math.log(order * delta) / (order - 1)


def _rho(event: DpEvent, *, relation: Relation) -> float:
    rule = rule_of(event)
    if rule.rho is None or rule.proof("zcdp", event, relation=relation) is None:
        raise PrivacyRefusal(
            f"filter zcdp: expected releases on the whole data set, got {rule.name}. Take a scope "
            "with filter rdp."
        )
    return rule.rho(event, relation)


def _certificate(run: Commitment) -> tuple[float, float]:
    if not (0 <= run.epsilon < math.inf and 0 <= run.delta < 1):
        raise PrivacyRefusal(
            f"filter: expected a finite certificate, got epsilon {run.epsilon!r} at delta "
            f"{run.delta!r}."
        )
    return float(run.epsilon), float(run.delta)
