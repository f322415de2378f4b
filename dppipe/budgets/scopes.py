"""Scopes: budgets that many runs share.

Everything that decides a scope's guarantee is fixed when the scope is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from dppipe.component import Field, Options
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.budget import Relation
from dppipe.privacy.filters.filters import (
    FILTERS,
    Amount,
    Commitment,
    Filter,
    best_order,
    read_filter,
)
from dppipe.spec.messages.suggestions import suggest_name

State = Literal["reserved", "settled"]
UNITS = ("example", "user")
"""Whose privacy a run can protect."""


class Scope(Options):
    """One budget that many runs share.

    Guarantee: all runs of the scope together cost one unit at most (epsilon, delta) under
    `relation`, however each run was chosen from what earlier ones released, because the filter was
    fixed before the first run.
    """

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="What `budget.scope` names.",
    )
    epsilon: float = Field(gt=0, description="The most that all runs together may cost.")
    delta: float = Field(gt=0, lt=1, description="The delta of that epsilon.")
    relation: Relation = Field("zero_out", description="What neighbouring data sets differ in.")
    unit: str = Field("example", description="Whose privacy is protected.")
    filter: dict[str, Any] = Field(description="The filter as plain data.")

    @classmethod
    def make(
        cls,
        name: str,
        *,
        epsilon: float,
        delta: float,
        filter: str = "rdp",
        order: float | None = None,
        like: Commitment | None = None,
        **fixed: Any,
    ) -> Self:
        """Make a scope; one that no run fits in is refused.

        Args:
            name: What `budget.scope` names.
            epsilon: The most that all runs together may cost.
            delta: The delta of that epsilon.
            filter: How costs are added up.
            order: The Renyi order of filter rdp.
            like: A run such as will be done most: the order is chosen for it where none is given.
            fixed: The relation and the unit.
        """
        _check_names(filter, fixed.get("unit", "example"), order=order)
        options = {}
        if filter == "rdp":
            options["order"] = order or best_order(epsilon=epsilon, delta=delta, like=like)
        scope = cls(
            name=name,
            epsilon=epsilon,
            delta=delta,
            filter=FILTERS[filter].from_data(options).to_data(),
            **fixed,
        )
        if not scope.capacity.amount > 0:
            raise PrivacyRefusal(
                f"{name}: expected room for some run, got none: raise epsilon or delta, or choose "
                "another order."
            )
        return scope

    @cached_property
    def rule(self) -> Filter:
        """The filter itself."""
        return read_filter(self.filter)

    @cached_property
    def capacity(self) -> Amount:
        """The most that costs may add up to."""
        return self.rule.capacity(epsilon=self.epsilon, delta=self.delta)

    def share(self, cost: Amount) -> float:
        """Return the part of the capacity that a cost takes, of its amount or its delta."""
        capacity = self.capacity
        of_amount = cost.amount / capacity.amount
        return max(of_amount, cost.delta / capacity.delta) if capacity.delta else of_amount


@dataclass(frozen=True)
class Entry:
    """What the store holds for a run: reserved before it starts, settled when its cost is known."""

    run_id: str
    scope: str
    state: State
    cost: Amount
    epsilon: float
    """The certificate of the run's plan, at `delta`."""
    delta: float
    run_dir: str
    plan_hash: str
    fingerprint: str | None
    host: str
    at: str


@dataclass(frozen=True)
class Status:
    """How much of a scope is used."""

    scope: Scope
    runs: tuple[Entry, ...]

    @property
    def used(self) -> Amount:
        """What all runs cost together, reserved ones in full."""
        return total(entry.cost for entry in self.runs)

    @property
    def room(self) -> Amount:
        """What is left."""
        used = self.used
        capacity = self.scope.capacity
        amount = max(0.0, capacity.amount - used.amount)
        return Amount(amount, max(0.0, capacity.delta - used.delta))

    @property
    def epsilon_spent(self) -> float:
        """The epsilon that all costs so far convert to at the scope's delta.

        It shows how far the budget is used. What is proven for all runs is the scope's epsilon.
        """
        used = self.used
        if not (used.amount or used.delta):
            return 0.0
        epsilon = max(0.0, self.scope.rule.epsilon(used, delta=self.scope.delta))
        # Of what fits, only rounding could convert to more than the scope's epsilon.
        return min(epsilon, self.scope.epsilon) if used.fits(self.scope.capacity) else epsilon

    def without(self, run_id: str) -> Status:
        """Return the scope with all runs but one."""
        return Status(self.scope, tuple(entry for entry in self.runs if entry.run_id != run_id))

    def fits(self, cost: Amount) -> bool:
        """Whether another cost stays within the scope; every reservation depends on this."""
        return total([self.used, cost]).fits(self.scope.capacity)

    @property
    def share(self) -> float:
        """The part of the budget that is used; 1 is all of it."""
        return self.scope.share(self.used)

    @property
    def left(self) -> float:
        """The part of the budget that is left, from 0 to 1."""
        return max(0.0, 1 - self.share)


def _check_names(filter: str, unit: str, *, order: float | None) -> None:
    """Refuse a filter or a unit that doesn't exist, and an order that the filter doesn't have."""
    if filter not in FILTERS:
        meant = suggest_name(filter, FILTERS)
        known = ", ".join(FILTERS)
        raise UsageError(f"filter: expected one of {known}, got {filter!r}.{meant}")
    if unit not in UNITS:
        meant = suggest_name(unit, UNITS)
        raise UsageError(f"unit: expected {' or '.join(UNITS)}, got {unit!r}.{meant}")
    if order is not None and filter != "rdp":
        raise UsageError(
            f"order: expected none with filter {filter}, got {order}. Only rdp has one."
        )


def percent_used(share: float) -> str:
    """Return a share that is used or needed in percent, rounded up."""
    return f"{math.ceil(share * 1000 * (1 - 1e-12)) / 10:.1f}%"


def percent_left(share: float) -> str:
    """Return a share that is left in percent, rounded down."""
    return f"{math.floor(share * 1000) / 10:.1f}%"


def counted(runs: int) -> str:
    """Return a number of runs in words."""
    return "1 run" if runs == 1 else f"{runs} runs"


def total(costs: Iterable[Amount]) -> Amount:
    """Return the sum of costs, rounded once."""
    amounts = []
    deltas = []
    for cost in costs:
        amounts.append(cost.amount)
        deltas.append(cost.delta)
    return Amount(math.fsum(amounts), math.fsum(deltas))
