"""Calibration lands on the budget from below, and steps are counted down to what fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Advanced, Basic, Gdp, Pld, Rdp, Tcdp, Zcdp
from dppipe.privacy.accountants.base import Accountant, Certificate, Composition
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.calibration import affordable_steps, calibrate
from dppipe.privacy.events.sequences import Counts, Steps, first
from dppipe.privacy.rounding import round_up


def gaussian(z: float) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(z)


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, gaussian(z))


@pytest.mark.parametrize(
    "accountant", [Pld(), Rdp(), Tcdp(), Advanced(), Basic()], ids=lambda made: made.kind
)
def test_noise_lands_just_below_the_budget(accountant: Accountant) -> None:
    budget = Budget(epsilon=3, delta=1e-5)
    found = calibrate(accountant, lambda z: [(poisson(0.02, z), 200)], budget=budget)
    assert found.epsilon <= budget.epsilon
    assert found.epsilon == accountant.compose(
        [(poisson(0.02, found.scale), 200)], relation="zero_out"
    ).epsilon(1e-5)
    less = accountant.compose(
        [(poisson(0.02, found.scale * (1 - 1e-3)), 200)], relation="zero_out"
    ).epsilon(1e-5)
    assert less > budget.epsilon
    assert found.scale == round_up(found.scale, 5)


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.1, 50.0),
    delta=st.floats(1e-10, 1e-3),
    steps=st.integers(1, 3000),
    relation=st.sampled_from(["zero_out", "replace_one"]),
    accountant=st.sampled_from([Gdp(), Zcdp(), Rdp()]),
)
def test_no_budget_is_ever_exceeded(
    epsilon: float, delta: float, steps: int, relation: str, accountant: Accountant
) -> None:
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)  # type: ignore[arg-type]
    found = calibrate(accountant, lambda z: [(gaussian(z), steps)], budget=budget)
    assert 0 < found.epsilon <= epsilon
    assert found.epsilon > 0.99 * epsilon


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-3, 3.5e-3])
def test_a_budget_at_which_epsilon_jumps_is_kept(epsilon: float) -> None:
    """The epsilon of rdp jumps to 0 where the delta alone covers the steps."""
    budget = Budget(epsilon=epsilon, delta=1e-5)
    found = calibrate(Rdp(), lambda z: [(poisson(0.045, z), 90)], budget=budget)
    assert 0 <= found.epsilon <= epsilon


def test_a_whole_schedule_is_scaled() -> None:
    relative = [1 - t / 60 for t in range(30)]

    def steps_at(scale: float) -> Steps:
        return [(poisson(0.02, scale * each), 10) for each in relative]

    found = calibrate(Pld(), steps_at, budget=Budget(epsilon=2, delta=1e-5))
    assert 1.99 < found.epsilon <= 2
    assert found.epsilon == Pld().compose(steps_at(found.scale), relation="zero_out").epsilon(1e-5)


def test_an_estimate_is_never_calibrated_by() -> None:
    budget = Budget(epsilon=3, delta=1e-5)
    with pytest.raises(PrivacyRefusal, match="estimate"):
        calibrate(Gdp(), lambda z: [(poisson(0.02, z), 200)], budget=budget)
    with pytest.raises(PrivacyRefusal, match="estimate"):
        affordable_steps(Gdp(), poisson(0.02, 1.0), budget=budget)


def test_a_budget_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="budget"):
        calibrate(
            Rdp(), lambda z: [(poisson(0.5, z), 10**9)], budget=Budget(epsilon=1e-6, delta=1e-9)
        )


@pytest.mark.parametrize("accountant", [Pld(), Rdp(), Advanced()], ids=lambda made: made.kind)
def test_the_last_affordable_step_fits_and_the_next_does_not(accountant: Accountant) -> None:
    budget = Budget(epsilon=4, delta=1e-5)
    count = affordable_steps(accountant, poisson(0.01, 3.0), budget=budget)
    within, above = (
        accountant.compose([(poisson(0.01, 3.0), steps)], relation="zero_out").epsilon(1e-5)
        for steps in (count, count + 1)
    )
    assert within <= 4 < above


@pytest.mark.parametrize("accountant", [Pld(), Rdp()], ids=lambda made: made.kind)
def test_a_committed_schedule_is_cut_where_the_budget_ends(accountant: Accountant) -> None:
    steps = [(poisson(0.02, 2 - t / 200), 1) for t in range(200)]
    budget = Budget(epsilon=0.9, delta=1e-5)
    count = affordable_steps(accountant, steps, budget=budget, at_most=200)
    assert 0 < count < 200
    within, above = (
        accountant.compose(first(steps, n), relation="zero_out").epsilon(1e-5)
        for n in (count, count + 1)
    )
    assert within <= 0.9 < above


def test_no_step_or_all_of_them() -> None:
    budget = Budget(epsilon=1, delta=1e-5)
    assert affordable_steps(Pld(), gaussian(1.0), budget=budget) == 0
    assert affordable_steps(Pld(), gaussian(100.0), budget=budget, at_most=7) == 7
    assert affordable_steps(Pld(), [(gaussian(100.0), 3), (gaussian(50.0), 2)], budget=budget) == 5
    assert affordable_steps(Pld(), gaussian(100.0), budget=budget, at_most=0) == 0


@given(value=st.floats(1e-6, 1e6), digits=st.integers(1, 10))
def test_rounding_up_never_goes_down_and_moves_by_less_than_a_digit(
    value: float, digits: int
) -> None:
    rounded = round_up(value, digits)
    assert value <= rounded <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)
    assert round_up(rounded, digits) == rounded
    assert float(f"{rounded:.{digits}g}") == rounded


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(0.1, 5, 0.1), (2.99993, 4, 3.0), (1.23451, 4, 1.235), (0.0, 3, 0.0)],
)
def test_rounding_up(value: float, digits: int, expected: float) -> None:
    assert round_up(value, digits) == expected


@dataclass(frozen=True)
class Bumpy:
    """A privacy curve that falls slowly with the noise, to 1 at noise 2, but for a bump where that is rounded up to."""

    z: float

    def epsilon(self, delta: float) -> float:
        return 1.5 if 2.00001 < self.z < 2.00015 else (2.00001 / self.z) ** 0.05

    def delta(self, epsilon: float) -> float:
        return 1.0

    def parameters(self) -> dict[str, Any]:
        return {}


class BumpyAccountant(Accountant):
    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        return [
            Certificate("bumpy", relation, Bumpy(event.noise_multiplier))
            for stage in stages
            for event in stage
        ]


def test_noise_that_was_found_is_within_the_budget_even_where_more_of_it_costs_more() -> None:
    """On the way to the smallest noise, cost is taken to fall with it; what is returned was evaluated itself."""
    found = calibrate(
        BumpyAccountant(), lambda z: [(gaussian(z), 1)], budget=Budget(epsilon=1, delta=1e-5)
    )
    assert found.epsilon == Bumpy(found.scale).epsilon(1e-5) <= 1
    assert found.scale == 2.0002
