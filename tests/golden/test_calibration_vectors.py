"""Calibrations and budgets, frozen from dp_accounting 0.6.0, opacus 1.6.0 and prv_accountant."""

from __future__ import annotations

import dp_accounting
import pytest

from dppipe.privacy.accountants import Gdp, Pld, Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.calibration import affordable_steps, calibrate
from dppipe.privacy.filters.step_filters import StepFilter, advanced_measure, rdp_measure


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps", "pld", "rdp", "tolerance"),
    [
        (1, 1e-5, 0.01, 1000, 1.41471, 1.51313, 3e-4),
        (2, 1e-5, 0.01, 10_000, 2.12754, 2.27816, 3e-4),
        (8, 1e-5, 0.01, 1000, 0.58636, 0.61594, 3e-4),
        (3, 1e-5, 256 / 60_000, 4688, 0.75959, 0.80259, 3e-4),
        (1, 1e-6, 0.1, 512, 9.66183, 10.36423, 1e-3),
    ],
)
def test_noise_that_lands_on_the_budget(
    epsilon: float, delta: float, rate: float, steps: int, pld: float, rdp: float, tolerance: float
) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    for accountant, expected in ((Pld(), pld), (Rdp(), rdp)):
        found = calibrate(accountant, lambda z: [(poisson(rate, z), steps)], budget=budget)
        assert found.scale == pytest.approx(expected, abs=tolerance)
        assert found.epsilon <= epsilon


def test_most_steps_within_a_budget() -> None:
    budget = Budget(epsilon=2, delta=1e-5)
    assert affordable_steps(Pld(), poisson(0.01, 1.0), budget=budget) == 1202
    assert affordable_steps(Rdp(), poisson(0.01, 1.0), budget=budget) == 881


def test_most_steps_at_a_high_rate() -> None:
    budget, step = Budget(epsilon=2, delta=1e-6), poisson(0.1, 3.0)
    assert affordable_steps(Pld(), step, budget=budget) == 155
    assert Pld().compose([(step, 155)], relation="zero_out").epsilon(1e-6) == pytest.approx(
        1.99626, abs=5e-4
    )
    assert Pld().compose([(step, 156)], relation="zero_out").epsilon(1e-6) == pytest.approx(
        2.00294, abs=5e-4
    )


def test_most_steps_at_full_batch() -> None:
    assert (
        affordable_steps(
            Gdp(), dp_accounting.GaussianDpEvent(10.0), budget=Budget(epsilon=2, delta=1e-5)
        )
        == 25
    )


@pytest.mark.parametrize(("order", "expected"), [(8, 0.785891), (16, 1.481849), (32, 1.772162)])
def test_renyi_budget_at_one_order(order: float, expected: float) -> None:
    measure = rdp_measure(Budget(epsilon=2, delta=1e-5), order=float(order))
    assert measure.capacity.amount == pytest.approx(expected, abs=1e-6)


def test_renyi_filter_admits_as_many_steps_as_fit_at_its_order() -> None:
    full = StepFilter(rdp_measure(Budget(epsilon=2, delta=1e-5), order=12.0))
    assert _admitted(full, dp_accounting.GaussianDpEvent(10.0)) == 21
    sampled = StepFilter(rdp_measure(Budget(epsilon=2, delta=1e-5), order=7.9))
    assert _admitted(sampled, poisson(0.01, 1.0)) == 881


def test_filter_for_approximate_mechanisms_stops_where_the_formula_says() -> None:
    for epsilon, admitted in ((5.2985259 + 1e-6, 100), (5.2985259 - 1e-6, 99)):
        budget = Budget(epsilon=epsilon, delta=2e-5)  # half of delta is the formula's slack
        filter = StepFilter(advanced_measure(budget, steps=1))
        assert _admitted(filter, dp_accounting.LaplaceDpEvent(10.0)) == admitted


def _admitted(filter: StepFilter, event: dp_accounting.DpEvent) -> int:
    count = 0
    while filter.fits(event):
        filter.charge(event)
        count += 1
    return count
