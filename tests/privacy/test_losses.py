"""Privacy loss distributions against dp_accounting's own, and against closed forms."""

from __future__ import annotations

import time
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.accountants import Pld
from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.losses import compose, event_losses
from dppipe.privacy.profiles import directions

NEIGHBOURS = {
    "zero_out": NeighboringRelation.REPLACE_SPECIAL,
    "add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": NeighboringRelation.REPLACE_ONE,
}


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))


def library(event: dp_accounting.DpEvent, count: int, relation: str, delta: float) -> float:
    accountant = PLDAccountant(NEIGHBOURS[relation], 1e-4)
    accountant.compose(event, count)
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    ("event", "count"),
    [
        (poisson(0.02, 1.2), 300),
        (poisson(0.3, 6.0), 40),
        (dp_accounting.TruncatedSubsampledGaussianDpEvent(2000, 0.05, 130, 2.0), 60),
        (dp_accounting.GaussianDpEvent(7.0), 30),
    ],
)
def test_composition_agrees_with_dp_accounting(event: dp_accounting.DpEvent, count: int, relation: Any) -> None:
    ours = Pld().compose([(event, count)], relation=relation)
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(library(event, count, relation, delta), abs=2e-6)


@pytest.mark.parametrize(
    "event", [dp_accounting.LaplaceDpEvent(3.0), dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(1.0))]
)
def test_laplace_agrees_with_dp_accounting(event: dp_accounting.DpEvent) -> None:
    ours = Pld().compose([(event, 20)], relation="zero_out").epsilon(1e-5)
    assert ours == pytest.approx(library(event, 20, "zero_out", 1e-5), abs=2e-6)


def test_a_replaced_record_halves_laplace_noise() -> None:
    replaced = Pld().compose([(dp_accounting.LaplaceDpEvent(4.0), 5)], relation="replace_one").epsilon(1e-6)
    assert replaced == pytest.approx(Pld().compose([(dp_accounting.LaplaceDpEvent(2.0), 5)], relation="zero_out").epsilon(1e-6))


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(0.001, 0.9), z=st.floats(0.4, 20.0), epsilon=st.floats(-3.0, 3.0))
def test_two_directions_are_each_other_mirrored(rate: float, z: float, epsilon: float) -> None:
    removed, added = directions(poisson(rate, z), relation="zero_out")
    at = np.array([epsilon])
    mirrored = -np.expm1(at) + np.exp(at) * removed.profile(-at)
    assert added.profile(at) == pytest.approx(mirrored, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(0.001, 1.0), z=st.floats(0.4, 20.0))
def test_profiles_fall_from_one_to_nothing_and_are_convex_in_exp_epsilon(rate: float, z: float) -> None:
    events = [poisson(rate, z)] if rate < 1 else [dp_accounting.GaussianDpEvent(z)]
    events.append(
        dp_accounting.SampledWithoutReplacementDpEvent(1000, max(1, int(1000 * rate)), dp_accounting.GaussianDpEvent(z))
    )
    for event, relation in zip(events, ("zero_out", "replace_one"), strict=True):
        for way in directions(event, relation=relation):  # type: ignore[arg-type]
            grid = np.linspace(-5, 5, 401)
            values = way.profile(grid)
            assert np.all((values >= -1e-15) & (values <= 1))
            assert np.all(np.diff(values) <= 1e-14)
            slopes = np.diff(values) / np.diff(np.exp(grid))
            assert np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:]) - 1e-9)


@pytest.mark.parametrize("interval", [1e-3, 1e-2])
def test_discretised_losses_dominate_the_profile(interval: float) -> None:
    for way, losses in zip(
        directions(poisson(0.1, 1.5), relation="zero_out"),
        event_losses(poisson(0.1, 1.5), relation="zero_out", interval=interval),
        strict=True,
    ):
        for epsilon in np.linspace(0.0, 3.0, 37):
            assert losses.delta(float(epsilon)) >= float(way.profile(np.array([epsilon]))[0]) - 1e-15


def test_composing_gaussians_on_the_grid_stays_just_above_the_exact_curve() -> None:
    (losses,) = event_losses(dp_accounting.GaussianDpEvent(5.0), relation="zero_out", interval=1e-3)
    stages = list(compose([[(losses, 3)], [(losses, 7)]]))
    for composed, steps in zip(stages, (3, 10), strict=True):
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            exact = float(gaussian_delta(epsilon, 5.0 / steps**0.5))
            assert exact <= composed.delta(epsilon) <= exact * 1.01 + 1e-12


def test_a_delta_within_round_off_proves_nothing() -> None:
    composed = Pld().compose([(poisson(0.01, 1.0), 1000)], relation="zero_out")
    assert composed.epsilon(1e-12) < 5
    assert composed.epsilon(1e-14) == float("inf")


def test_next_to_no_noise_is_answered_and_unbounded() -> None:
    assert Pld().compose([(poisson(0.01, 0.02), 50)], relation="zero_out").epsilon(1e-5) > 100


def test_sampling_without_replacement_costs_more_than_poisson_under_one_relation() -> None:
    subset = dp_accounting.SampledWithoutReplacementDpEvent(10_000, 100, dp_accounting.GaussianDpEvent(2.0))
    fixed = Pld().compose([(subset, 100)], relation="replace_one").epsilon(1e-5)
    assert fixed >= Pld().compose([(poisson(0.01, 2.0), 100)], relation="replace_one").epsilon(1e-5)


def test_truncation_never_costs_less_than_none() -> None:
    plain = Pld().compose([(poisson(0.05, 2.0), 50)], relation="zero_out").epsilon(1e-5)
    for most in (100, 120, 150):
        event = dp_accounting.TruncatedSubsampledGaussianDpEvent(2000, 0.05, most, 2.0)
        assert Pld().compose([(event, 50)], relation="zero_out").epsilon(1e-5) >= plain - 1e-9


def test_ten_thousand_noise_multipliers_are_composed_in_seconds_and_bounded_from_both_sides() -> None:
    steps = [(poisson(0.01, float(z)), 1) for z in np.linspace(2, 1, 10_000)]
    started = time.process_time()
    spent = Pld().compose(steps, relation="zero_out").epsilon(1e-5)
    assert time.process_time() - started < 20
    cost = Pld().rounding_cost(steps, delta=1e-5, relation="zero_out")
    assert 0 < cost < 0.01 * spent


def test_a_hundred_noise_multipliers_are_within_a_percent_of_the_fine_grid() -> None:
    multipliers = [2 - t / 99 for t in range(100)]
    spent = Pld().compose([(poisson(0.01, z), 1) for z in multipliers], relation="zero_out").epsilon(1e-5)
    ways = zip(*(event_losses(poisson(0.01, z), relation="zero_out", interval=2e-4) for z in multipliers), strict=True)
    fine = max(next(compose([[(losses, 1) for losses in way]])).epsilon(1e-5) for way in ways)
    assert fine <= spent <= 1.01 * fine
