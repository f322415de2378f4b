"""Step filters: whether one more step fits in a budget, asked before the step touches data.

A committed run only has to count steps: its accountant has bounded the whole schedule beforehand.
Where noise or rate follow released values, no accountant's curve proves anything, but some sums do
(`dppipe.privacy.filters.filters`): each step is admitted only while its sum stays within a
capacity. The residual budget of Hong, Wang and Zhou (2022) is the zCDP filter with R = 2 rho.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.sequences import Steps, merge, total
from dppipe.privacy.filters.filters import (
    AdvancedFilter,
    Amount,
    Commitment,
    Filter,
    RdpFilter,
    ZcdpFilter,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class Measure:
    """What a filter adds up: the cost of an event, and the most that costs may add up to."""

    name: str
    capacity: Amount
    cost: Callable[[DpEvent], Amount]


class StepFilter:
    """Admits steps one by one while their costs fit in a capacity that was fixed beforehand.

    Guarantee: if every step is charged before it is done, all of them together are (epsilon,
    delta)-differentially private for the measure's budget, however each event was chosen from what
    earlier steps released. An event whose cost is unknown or not a number doesn't fit.
    """

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        # Exact: rounded sums of a million steps would creep below what was charged.
        self._spent = (Fraction(), Fraction())

    def fits(self, event: DpEvent) -> bool:
        """Whether this step may be done."""
        return self._after(event) is not None

    def charge(self, event: DpEvent) -> None:
        """Pay for a step before it is done; refuse (BudgetExhausted) one that doesn't fit."""
        after = self._after(event)
        if after is None:
            raise BudgetExhausted(
                f"budget: the next step would exceed what the {self.measure.name} filter has "
                "left. Stop here."
            )
        self._spent = after

    def spent(self) -> Amount:
        """Return what the charged steps add up to, in the filter's own measure."""
        amount, delta = self._spent
        return Amount(float(amount), float(delta))

    def _after(self, event: DpEvent) -> tuple[Fraction, Fraction] | None:
        try:
            cost = self.measure.cost(event)
        except PrivacyRefusal:
            return None
        if not (math.isfinite(cost.amount) and math.isfinite(cost.delta)):
            return None
        capacity = self.measure.capacity
        amount = self._spent[0] + Fraction(cost.amount)
        delta = self._spent[1] + Fraction(cost.delta)
        if amount <= capacity.amount and delta <= capacity.delta:
            return amount, delta
        return None


class Odometer:
    """Bounds what was spent at any moment, even at one chosen by looking at releases.

    Guarantee: it runs a filter for each of K budgets at delta/K. At whatever step one stops, the
    smallest budget that was never exceeded bounds the run at delta, by a union bound over the K
    filters (Lécuyer 2021). The numbers that accountants print during a run don't have that
    property: they hold for the committed end.
    """

    def __init__(
        self, kind: str, *, budget: Budget, epsilons: Sequence[float], planned: Steps
    ) -> None:
        if not epsilons:
            raise PrivacyRefusal(
                "odometer: expected at least one epsilon, got none. Give the budgets that it may "
                "claim."
            )
        share = budget.delta / len(epsilons)
        self._filters: dict[float, StepFilter] = {}
        for epsilon in sorted(epsilons):
            part = budget.model_copy(update={"epsilon": epsilon, "delta": share})
            self._filters[epsilon] = step_filter(kind, budget=part, planned=planned)

    def fits(self, event: DpEvent) -> bool:
        """Whether some budget is left after this step."""
        return any(filter.fits(event) for filter in self._filters.values())

    def charge(self, event: DpEvent) -> None:
        """Pay for a step in every filter; one that it doesn't fit is out for good."""
        left: dict[float, StepFilter] = {}
        for epsilon, filter in self._filters.items():
            if filter.fits(event):
                left[epsilon] = filter
        if not left:
            raise BudgetExhausted(
                "budget: the next step would exceed every budget of the odometer. Stop here."
            )
        for filter in left.values():
            filter.charge(event)
        self._filters = left

    def spent(self) -> float:
        """Return the smallest budget that was never exceeded: the claim if the run ends here."""
        return min(self._filters)


def step_filter(kind: str, *, budget: Budget, planned: Steps) -> StepFilter:
    """Return the filter that goes with an accountant.

    Its one free parameter is the best for the planned steps.

    Args:
        kind: An accountant's kind: rdp, tcdp, zcdp, gdp or advanced; the others have no proven
            filter.
        budget: What all steps together may cost.
        planned: The steps that are expected; choosing by them is free, as no record was read.
    """
    if kind == "rdp":
        return StepFilter(rdp_measure(budget, order=_best_order(budget, planned)))
    if kind == "tcdp":
        return StepFilter(tcdp_measure(budget, omega=_best_omega(budget, planned)))
    if kind == "zcdp":
        return StepFilter(_measure(ZcdpFilter(), budget))
    if kind == "gdp":
        return StepFilter(gdp_measure(budget))
    if kind == "advanced":
        return StepFilter(advanced_measure(budget, steps=max(1, total(planned))))
    raise PrivacyRefusal(
        "accountant: expected one with a filter for steps that follow released values, got "
        f"{kind!r}. "
        "Take rdp, which works with sampling, or zcdp or gdp without."
    )


def rdp_measure(budget: Budget, *, order: float) -> Measure:
    """Add up Renyi divergences at one order, fixed beforehand."""
    return _measure(RdpFilter(order=order), budget)


def gdp_measure(budget: Budget) -> Measure:
    """Add up mu squared of Gaussians without sampling.

    See Smith and Thakurta (2022) and Koskela et al. (2023).
    """
    from dppipe.privacy.events.sequences import gaussian_precision
    from dppipe.privacy.gaussian import gaussian_scale

    def cost(event: DpEvent) -> Amount:
        precision = gaussian_precision(merge([(event, 1)]), relation=budget.relation)
        if precision is None:
            raise PrivacyRefusal(
                f"filter gdp: expected Gaussians without sampling, got {type(event).__name__}."
            )
        return Amount(precision)

    return Measure("gdp", Amount(gaussian_scale(budget.epsilon, budget.delta) ** -2), cost)


def tcdp_measure(budget: Budget, *, omega: float) -> Measure:
    """Add up rho at one limit omega, fixed beforehand (Bun et al. 2018).

    omega is one of `concentrated.LIMITS`.
    """
    from dppipe.privacy.rdp.concentrated import LIMITS, sampled_rhos

    place = LIMITS.index(omega)

    def cost(event: DpEvent) -> Amount:
        spent = 0.0
        for one, count in merge([(event, 1)]).items():
            spent += count * float(sampled_rhos(one, relation=budget.relation)[place])
        return Amount(spent)

    capacity = max(_room(budget, order) / order for order in LIMITS[: place + 1])
    return Measure("tcdp", Amount(capacity), cost)


def advanced_measure(budget: Budget, *, steps: int) -> Measure:
    """Add up squares of (epsilon, delta) steps (Whitehouse et al. 2023).

    Half of delta is divided over `steps`.
    """
    from dppipe.privacy.textbook.one_step import own_delta, step_epsilon

    capacity = AdvancedFilter().capacity(epsilon=budget.epsilon, delta=budget.delta)
    each = capacity.delta / steps * (1 - 1e-9)  # their sum, rounded, is within the capacity

    def cost(event: DpEvent) -> Amount:
        squares = 0.0
        deltas = 0.0
        for one, count in merge([(event, 1)]).items():
            squares += count * step_epsilon(one, delta=each, relation=budget.relation) ** 2
            own = own_delta(one)
            deltas += count * (each if own is None else own)
        return Amount(squares, deltas)

    return Measure("advanced", capacity, cost)


def _measure(form: Filter, budget: Budget) -> Measure:
    def cost(event: DpEvent) -> Amount:
        return form.cost(
            Commitment([(event, 1)], budget.relation, budget.unit, budget.epsilon, budget.delta)
        )

    return Measure(form.kind, form.capacity(epsilon=budget.epsilon, delta=budget.delta), cost)


def _room(budget: Budget, order: float) -> float:
    return RdpFilter(order=order).capacity(epsilon=budget.epsilon, delta=budget.delta).amount


def _best_order(budget: Budget, planned: Steps) -> float:
    """Return the order at which the planned steps could be repeated most often."""
    from dppipe.privacy.rdp.divergences import ORDERS, divergences

    spent = np.zeros(len(ORDERS))
    for event, count in merge(planned).items():
        spent = spent + count * divergences(event, relation=budget.relation)
    rooms = np.array([_room(budget, order) for order in ORDERS])
    return ORDERS[int(np.argmax(rooms / np.maximum(spent, 1e-300)))]


def _best_omega(budget: Budget, planned: Steps) -> float:
    """Return the limit at which the planned steps could be repeated most often."""
    from dppipe.privacy.rdp.concentrated import LIMITS, sampled_rhos

    spent = np.zeros(len(LIMITS))
    for event, count in merge(planned).items():
        spent = spent + count * sampled_rhos(event, relation=budget.relation)
    capacity = np.maximum.accumulate([_room(budget, order) / order for order in LIMITS])
    return LIMITS[int(np.argmax(capacity / np.maximum(spent, 1e-300)))]
