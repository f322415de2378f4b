"""Filters admit a step only while its cost fits; what they don't understand doesn't fit."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.privacy.accountants import Gdp, Rdp, Zcdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.filters.filters import Amount
from dppipe.privacy.filters.step_filters import (
    Measure,
    Odometer,
    StepFilter,
    advanced_measure,
    gdp_measure,
    step_filter,
)

BUDGET = Budget(epsilon=2, delta=1e-5)


def gaussian(z: float) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(z)


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, gaussian(z))


@settings(max_examples=30, deadline=None)
@given(
    multipliers=st.lists(st.floats(3.0, 60.0), max_size=40),
    kind=st.sampled_from(["gdp", "zcdp", "rdp", "tcdp"]),
)
def test_whatever_is_admitted_stays_within_the_budget(multipliers: list[float], kind: str) -> None:
    filter = step_filter(kind, budget=BUDGET, planned=[(gaussian(10.0), 20)])
    admitted = []
    for z in multipliers:
        if filter.fits(gaussian(z)):
            filter.charge(gaussian(z))
            admitted.append((gaussian(z), 1))
    accountant = {"gdp": Gdp(), "zcdp": Zcdp(), "tcdp": Zcdp(), "rdp": Rdp()}[kind]
    assert accountant.compose(admitted, relation="zero_out").epsilon(
        BUDGET.delta
    ) <= BUDGET.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["rdp", "tcdp"])
def test_sampled_steps_are_admitted_up_to_the_budget(kind: str) -> None:
    step = poisson(0.01, 1.0)
    filter = step_filter(kind, budget=BUDGET, planned=[(step, 900)])
    count = 0
    while filter.fits(step):
        filter.charge(step)
        count += 1
    assert 850 <= count <= 881
    with pytest.raises(BudgetExhausted):
        filter.charge(step)


@pytest.mark.parametrize("kind", ["gdp", "zcdp"])
def test_sampling_is_not_understood_by_filters_without_amplification(kind: str) -> None:
    assert not step_filter(kind, budget=BUDGET, planned=[]).fits(poisson(0.01, 100.0))


@pytest.mark.parametrize("kind", ["pld", "basic", "x"])
def test_accountants_without_a_filter_are_refused(kind: str) -> None:
    with pytest.raises(PrivacyRefusal, match="filter"):
        step_filter(kind, budget=BUDGET, planned=[])


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "rdp", "tcdp", "advanced"])
@pytest.mark.parametrize(
    "event",
    [gaussian(math.nan), gaussian(0.0), dp_accounting.NonPrivateDpEvent(), gaussian(math.inf)],
)
def test_what_has_no_cost_does_not_fit(kind: str, event: dp_accounting.DpEvent) -> None:
    filter = step_filter(kind, budget=BUDGET, planned=[(gaussian(10.0), 5)])
    assert not filter.fits(event)
    with pytest.raises(BudgetExhausted):
        filter.charge(event)
    assert filter.spent() == Amount()


def test_a_cost_that_is_not_a_number_does_not_fit() -> None:
    filter = StepFilter(Measure("broken", Amount(1.0), lambda event: Amount(math.nan)))
    assert not filter.fits(gaussian(1.0))


def test_residual_budget_is_the_zcdp_filter_with_twice_rho() -> None:
    residual = 10.0  # R: the sum of 1/sigma^2 that may be spent
    filter = StepFilter(
        Measure(
            "zcdp",
            Amount(residual / 2),
            step_filter("zcdp", budget=BUDGET, planned=[]).measure.cost,
        )
    )
    requests = [0.74639035, 0.72698700, 0.70808806, 0.68968042, 0.67175131]
    for sigma in requests:
        residual -= sigma**-2
        fits = residual >= -1e-7
        assert fits
        filter.charge(gaussian(sigma * (1 + 1e-8)))
    assert filter.spent().amount == pytest.approx(5.0, abs=1e-6)
    assert not filter.fits(gaussian(1.0))


def test_the_deltas_of_steps_add_up_too() -> None:
    """Each of the planned steps has its share of delta; one more step has none, however little it costs otherwise."""
    filter = StepFilter(advanced_measure(Budget(epsilon=2.0, delta=1e-5), steps=3))
    for _ in range(3):
        filter.charge(gaussian(1e4))
    assert filter.spent().amount < 1e-3 * filter.measure.capacity.amount
    assert not filter.fits(gaussian(1e4))
    assert filter.fits(dp_accounting.LaplaceDpEvent(1e4))  # which needs no delta


def test_exactly_the_budget_still_fits() -> None:
    filter = StepFilter(Measure("exact", Amount(1.0), lambda event: Amount(0.25)))
    for _ in range(4):
        filter.charge(gaussian(1.0))
    assert not filter.fits(gaussian(1.0))


def test_capacity_of_the_gdp_filter_is_exact() -> None:
    assert gdp_measure(Budget(epsilon=1, delta=1e-5)).capacity.amount == pytest.approx(
        0.2680511232**2, rel=1e-7
    )


def test_an_odometer_claims_the_smallest_budget_that_was_never_exceeded() -> None:
    step = gaussian(10.0)
    odometer = Odometer("gdp", budget=BUDGET, epsilons=[2.0, 0.5, 1.0], planned=[(step, 20)])
    claims = []
    while odometer.fits(step):
        odometer.charge(step)
        claims.append(odometer.spent())
    assert claims == sorted(claims)
    assert set(claims) == {0.5, 1.0, 2.0}
    for count, claim in enumerate(claims, start=1):
        assert (
            Gdp().compose([(step, count)], relation="zero_out").epsilon(BUDGET.delta / 3) <= claim
        )
    with pytest.raises(BudgetExhausted):
        odometer.charge(step)


@settings(max_examples=30, deadline=None)
@given(
    multipliers=st.lists(st.floats(4.0, 60.0), max_size=25),
    kind=st.sampled_from(["gdp", "zcdp", "rdp"]),
)
def test_an_odometer_claims_what_a_filter_at_its_share_of_delta_would_have_admitted(
    multipliers: list[float], kind: str
) -> None:
    """Each of K filters holds but with delta/K, so all of them hold but with delta: whichever is claimed, at whatever step."""
    epsilons, planned = [0.5, 1.0, 2.0, 4.0], [(gaussian(10.0), 20)]
    odometer = Odometer(kind, budget=BUDGET, epsilons=epsilons, planned=planned)
    share = {"delta": BUDGET.delta / len(epsilons)}
    lone = {
        e: step_filter(
            kind, budget=BUDGET.model_copy(update={"epsilon": e, **share}), planned=planned
        )
        for e in epsilons
    }
    for event in map(gaussian, multipliers):
        if not odometer.fits(event):
            break
        odometer.charge(event)
        lone = {epsilon: filter for epsilon, filter in lone.items() if filter.fits(event)}
        for filter in lone.values():
            filter.charge(event)
        assert odometer.spent() == min(lone)


def test_every_budget_of_an_odometer_costs_the_others_some_delta() -> None:
    step = gaussian(10.0)

    def steps_within_one(epsilons: list[float]) -> int:
        odometer, count = Odometer("gdp", budget=BUDGET, epsilons=epsilons, planned=[(step, 20)]), 0
        while odometer.fits(step) and odometer.spent() <= 1.0:
            odometer.charge(step)
            count += odometer.spent() <= 1.0
        return count

    assert steps_within_one([1.0, 2.0, 3.0, 4.0]) < steps_within_one([1.0])


def test_a_budget_that_was_exceeded_never_comes_back() -> None:
    odometer = Odometer("gdp", budget=BUDGET, epsilons=[0.5, 2.0], planned=[])
    odometer.charge(gaussian(4.0))
    assert odometer.spent() == 2.0
    odometer.charge(gaussian(1000.0))
    assert odometer.spent() == 2.0


def test_an_odometer_without_budgets_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="at least one"):
        Odometer("gdp", budget=BUDGET, epsilons=[], planned=[])


def test_a_long_sum_of_small_costs_does_not_creep_below_what_was_charged() -> None:
    """Added up in float64, 100,000 of these come out lower than they are, and one step too many would fit."""
    cost, steps = 1.758e-7, 100_000
    capacity = math.nextafter(float(steps * Fraction(cost)), 0.0)
    assert float(np.add.accumulate(np.full(steps, cost))[-1]) < capacity < steps * Fraction(cost)
    filter = StepFilter(Measure("small", Amount(capacity), lambda event: Amount(cost)))
    for _ in range(steps - 1):
        filter.charge(gaussian(1.0))
    assert not filter.fits(gaussian(1.0))
