"""Privacy loss distributions against dp_accounting's own, and against closed forms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.accountants import Pld
from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.pld.convolution import convolved
from dppipe.privacy.pld.distributions import event_losses
from dppipe.privacy.pld.grid import LossPmf
from dppipe.privacy.pld.profiles import directions
from dppipe.privacy.textbook.theorems import optimal_epsilon

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
def test_composition_agrees_with_dp_accounting(
    event: dp_accounting.DpEvent, count: int, relation: Any
) -> None:
    ours = Pld().compose([(event, count)], relation=relation)
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(
            library(event, count, relation, delta), abs=2e-6
        )


@pytest.mark.parametrize(
    "event",
    [
        dp_accounting.LaplaceDpEvent(3.0),
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(1.0)),
    ],
)
def test_laplace_agrees_with_dp_accounting(event: dp_accounting.DpEvent) -> None:
    ours = Pld().compose([(event, 20)], relation="zero_out").epsilon(1e-5)
    assert ours == pytest.approx(library(event, 20, "zero_out", 1e-5), abs=2e-6)


def test_a_replaced_record_halves_laplace_noise() -> None:
    replaced = (
        Pld()
        .compose([(dp_accounting.LaplaceDpEvent(4.0), 5)], relation="replace_one")
        .epsilon(1e-6)
    )
    assert replaced == pytest.approx(
        Pld().compose([(dp_accounting.LaplaceDpEvent(2.0), 5)], relation="zero_out").epsilon(1e-6)
    )


@pytest.mark.parametrize("counts", [(4,), (4, 7, 2)])
def test_composing_is_what_dp_accounting_gives(counts: tuple[int, ...]) -> None:
    events = [poisson(0.05, 1.5), poisson(0.02, 1.0), dp_accounting.LaplaceDpEvent(5.0)]
    steps = list(zip(events, counts, strict=False))
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    for event, count in steps:
        theirs.compose(event, count)
    ours = Pld().compose(steps, relation="add_remove")
    assert ours.curve.parameters() == {"interval": 1e-4, "noise_rounded_down_by": 0.0}
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-8)


def sampled_delta(epsilon: mpmath.mpf, *, rate: float, z: float, removing: bool) -> mpmath.mpf:
    """Write out delta of the pair (1-q) N(0, z^2) + q N(1, z^2) and N(0, z^2), or of its reverse."""
    grown, q, z = mpmath.exp(epsilon), mpmath.mpf(rate), mpmath.mpf(z)
    ratio = grown if removing else 1 / grown
    if ratio <= 1 - q:  # the densities' ratio is everywhere larger
        return 1 - grown if removing else mpmath.mpf(0)
    edge = z**2 * mpmath.log((ratio - (1 - q)) / q) + mpmath.mpf(1) / 2  # where the ratio is this
    without, other = mpmath.ncdf(-edge / z), mpmath.ncdf((1 - edge) / z)
    drawn = (1 - q) * without + q * other
    return drawn - grown * without if removing else (1 - without) - grown * (1 - drawn)


@settings(max_examples=12, deadline=None)
@given(
    rate=st.floats(-9, 0).map(lambda log: min(math.exp(log), 0.999)),
    z=st.floats(-1, 4).map(math.exp),
)
def test_losses_on_the_grid_dominate_the_sampled_gaussian_exactly(rate: float, z: float) -> None:
    """Every dot is compared with fifty digits; between dots, and below, delta is straight and the exact one convex."""
    interval = 0.05 / z
    with mpmath.workdps(50):
        removed, added = event_losses(poisson(rate, z), relation="zero_out", interval=interval).pmfs
        assert dominates(
            removed, interval, lambda epsilon: sampled_delta(epsilon, rate=rate, z=z, removing=True)
        )
        assert dominates(
            added, interval, lambda epsilon: sampled_delta(epsilon, rate=rate, z=z, removing=False)
        )


@settings(max_examples=200, deadline=None)
@given(rate=st.floats(0.3, 0.9999), z=st.floats(0.2, 0.5), place=st.integers(3, 60))
def test_losses_on_the_grid_dominate_where_adding_a_record_can_lose_no_more(
    rate: float, z: float, place: int
) -> None:
    """A dot next to -ln(1-q): left of it delta is small, and worked out from a difference of numbers near each other."""
    interval = -math.log1p(-rate) / place
    _, added = event_losses(poisson(rate, z), relation="zero_out", interval=interval).pmfs
    end = added.lowest + len(added.probabilities)
    with mpmath.workdps(50):
        for dot in (place - 1, place):
            above = [(at - dot, added.probabilities[at - end]) for at in range(dot + 1, end)]
            found = added.infinite + mpmath.fsum(
                -mpmath.expm1(-mpmath.mpf(interval) * gap) * p for gap, p in above
            )
            assert (
                sampled_delta(dot * mpmath.mpf(interval), rate=rate, z=z, removing=False) <= found
            )


@settings(max_examples=8, deadline=None)
@given(z=st.floats(-1, 4).map(math.exp))
def test_losses_on_the_grid_dominate_the_gaussian_exactly(z: float) -> None:
    with mpmath.workdps(50):
        (way,) = event_losses(
            dp_accounting.GaussianDpEvent(z), relation="zero_out", interval=0.1 / z
        ).pmfs
        assert dominates(
            way, 0.1 / z, lambda epsilon: sampled_delta(epsilon, rate=1.0, z=z, removing=True)
        )


def dominates(way: LossPmf, interval: float, delta: Callable[[mpmath.mpf], mpmath.mpf]) -> bool:
    """Whether losses make up 1 at least and have, at every place of the grid, at least this delta; in exact arithmetic."""
    exact = [mpmath.mpf(float(probability)) for probability in way.probabilities]
    if mpmath.fsum(exact) + way.infinite < 1:
        return False
    step, shrunk = -mpmath.expm1(-mpmath.mpf(interval)), mpmath.exp(-mpmath.mpf(interval))
    found, tail = mpmath.mpf(way.infinite), mpmath.mpf(0)
    for place in reversed(range(len(exact))):
        if found < delta((way.lowest + place) * mpmath.mpf(interval)):
            return False
        tail = exact[place] + shrunk * tail
        found += step * tail  # one place lower, all losses from here on are higher by one interval
    return True


def subset(size: int, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.SampledWithoutReplacementDpEvent(
        1000, size, dp_accounting.GaussianDpEvent(z)
    )


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 999), z=st.floats(0.4, 20.0))
def test_a_subset_of_fixed_size_has_a_profile(size: int, z: float) -> None:
    (way,) = directions(subset(size, z), relation="replace_one")
    grid = np.linspace(-5, 5, 401)
    values = way.profile(grid)
    assert np.all((values >= -1e-15) & (values <= 1))
    assert np.all(np.diff(values) <= 1e-14)
    slopes = np.diff(values) / np.diff(np.exp(grid))  # convex in e^epsilon
    assert np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:]) - 1e-9)
    assert values == pytest.approx(
        -np.expm1(grid) + np.exp(grid) * way.profile(-grid), abs=1e-12
    )  # alike in both directions


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(1, 999),
    z=st.floats(0.4, 20.0),
    epsilon=st.floats(0.0, 3.0),
    interval=st.sampled_from([1e-3, 1e-2]),
)
def test_one_subset_on_the_grid_stays_just_above_its_closed_form(
    size: int, z: float, epsilon: float, interval: float
) -> None:
    losses = event_losses(subset(size, z), relation="replace_one", interval=interval)
    low, high = (
        at * interval for at in (math.floor(epsilon / interval), math.ceil(epsilon / interval))
    )
    exact, at_low, at_high = (closed_form(size / 1000, z, at) for at in (epsilon, low, high))
    found = losses.delta(epsilon)
    assert exact * (1 - 1e-12) <= found <= at_low * (1 + 1e-10) + 1e-13
    assert losses.delta(high) == pytest.approx(at_high, rel=1e-7, abs=1e-13)


def closed_form(rate: float, z: float, epsilon: float) -> float:
    return rate * float(gaussian_delta(math.log1p(math.expm1(epsilon) / rate), z / 2))


def test_composing_gaussians_on_the_grid_stays_just_above_the_exact_curve() -> None:
    losses = event_losses(dp_accounting.GaussianDpEvent(5.0), relation="zero_out", interval=1e-3)
    for steps in (3, 10):
        (composed,) = convolved([{losses.pmfs[0]: steps}])
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            exact = float(gaussian_delta(epsilon, 5.0 / steps**0.5))
            assert exact <= composed.delta(epsilon, interval=1e-3) <= exact * 1.01 + 1e-12


def test_a_delta_below_what_is_cut_off_proves_nothing() -> None:
    composed = Pld().compose([(poisson(0.01, 1.0), 1000)], relation="zero_out")
    assert composed.epsilon(1e-12) < 5
    assert composed.epsilon(4e-15) == float("inf")


@pytest.mark.parametrize(("rate", "z"), [(0.01, 0.02), (0.5, 0.04), (0.01, 0.1), (0.9, 0.3)])
@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_next_to_no_noise_is_answered_soon_and_costs_much(
    rate: float, z: float, relation: Any
) -> None:
    started = time.process_time()
    assert Pld().compose([(poisson(rate, z), 5000)], relation=relation).epsilon(1e-5) > 100
    assert time.process_time() - started < 15


def test_no_noise_at_all_still_protects_who_is_not_drawn() -> None:
    composed = Pld().compose(
        [(poisson(1e-9, 0.01), 100), (poisson(0.01, 1.0), 100)], relation="zero_out"
    )
    plain = Pld().compose([(poisson(0.01, 1.0), 100)], relation="zero_out")
    assert composed.epsilon(5e-8) == math.inf
    assert composed.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5 - 1e-7), rel=1e-6)
    assert composed.delta(1.0) == pytest.approx(plain.delta(1.0) + 1e-7, rel=1e-6)


def test_what_was_not_protected_at_one_stage_is_not_at_the_next() -> None:
    stages = [{poisson(1e-9, 0.01): 100}, {poisson(0.01, 1.0): 10}, {poisson(1e-9, 0.01): 100}]
    first, second, third = Pld().compositions(stages, relation="zero_out")
    assert first.epsilon(1.01e-7) == 0
    assert first.epsilon(0.99e-7) == second.epsilon(0.99e-7) == third.epsilon(1.99e-7) == math.inf
    assert 0 < second.epsilon(1.01e-7) < math.inf
    assert second.delta(0.5) + 1e-7 == pytest.approx(third.delta(0.5), rel=1e-6)


@pytest.mark.parametrize("event", [dp_accounting.LaplaceDpEvent(1e6), poisson(1e-4, 1e4)])
def test_a_billion_steps_that_lose_next_to_nothing_are_composed(
    event: dp_accounting.DpEvent,
) -> None:
    assert 0 < Pld().compose([(event, 10**9)], relation="zero_out").epsilon(1e-5) < math.inf


@pytest.mark.parametrize(
    ("rate", "z", "fine"), [(1e-4, 2.0, 0.17179), (1e-5, 1.0, 0.03692), (1e-3, 10.0, 0.34171)]
)
def test_losses_that_are_smaller_than_the_grid_narrow_it(
    rate: float, z: float, fine: float
) -> None:
    """A million steps, against a grid of 1e-6; one of 1e-4 costs up to twice as much."""
    composed = Pld().compose([(poisson(rate, z), 10**6)], relation="zero_out")
    assert fine * 0.999 < composed.epsilon(1e-5) < fine * 1.03
    assert composed.curve.parameters()["interval"] < 1e-4


@pytest.mark.parametrize(
    "event", [poisson(1e-300, 5.0), poisson(0.5, 1e15), poisson(1 - 2.0**-53, 1e9)]
)
@pytest.mark.parametrize("count", [2, 10**6, 10**9])
def test_a_grid_is_not_narrowed_so_far_that_rounding_up_costs_much(
    event: dp_accounting.DpEvent, count: int
) -> None:
    assert (
        Pld().compose([(event, count)], relation="zero_out").epsilon(1e-5)
        < 0.01 * math.sqrt(count / 1e6) + 0.01
    )


def test_sampling_without_replacement_costs_more_than_poisson_under_one_relation() -> None:
    subset = dp_accounting.SampledWithoutReplacementDpEvent(
        10_000, 100, dp_accounting.GaussianDpEvent(2.0)
    )
    fixed = Pld().compose([(subset, 100)], relation="replace_one").epsilon(1e-5)
    assert fixed >= Pld().compose([(poisson(0.01, 2.0), 100)], relation="replace_one").epsilon(1e-5)


def test_truncation_never_costs_less_than_none() -> None:
    plain = Pld().compose([(poisson(0.05, 2.0), 50)], relation="zero_out").epsilon(1e-5)
    for most in (100, 120, 150):
        event = dp_accounting.TruncatedSubsampledGaussianDpEvent(2000, 0.05, most, 2.0)
        assert Pld().compose([(event, 50)], relation="zero_out").epsilon(1e-5) >= plain - 1e-9


def test_ten_thousand_noise_multipliers_are_composed_in_seconds_and_bounded_from_both_sides() -> (
    None
):
    steps = [(poisson(0.01, float(z)), 1) for z in np.linspace(2, 1, 10_000)]
    started = time.process_time()
    spent = Pld().compose(steps, relation="zero_out").epsilon(1e-5)
    assert time.process_time() - started < 20
    cost = Pld().rounding_cost(steps, delta=1e-5, relation="zero_out")
    assert 0 < cost < 0.01 * spent


def test_a_hundred_noise_multipliers_are_within_a_percent_of_the_fine_grid() -> None:
    steps = [(poisson(0.01, 2 - t / 99), 1) for t in range(100)]
    spent = Pld().compose(steps, relation="zero_out").epsilon(1e-5)
    assert 0.40650 < spent <= 1.01 * 0.40674  # dp_accounting on a grid of 1e-4


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.01, 2.0),
    st.sampled_from([0.0, 1e-9, 1e-5]),
    st.integers(2, 150),
    st.floats(-25, -5).map(math.exp),
)
def test_optimal_composition_is_what_binomials_say(
    epsilon: float, delta: float, count: int, slack: float
) -> None:
    """Kairouz, Oh and Viswanath (2015): all is told with probability delta, else the loss is +epsilon or -epsilon."""
    total = slack + 1.5 * count * delta
    found = optimal_epsilon(epsilon, delta=delta, count=count, total_delta=total)
    with mpmath.workdps(40):
        one, likely = mpmath.mpf(epsilon), 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))

        def exact(at: float) -> mpmath.mpf:
            ups = [
                (k, (2 * k - count) * one) for k in range(count + 1) if (2 * k - count) * one > at
            ]
            terms = (
                mpmath.binomial(count, k)
                * likely**k
                * (1 - likely) ** (count - k)
                * -mpmath.expm1(at - x)
                for k, x in ups
            )
            return 1 - (1 - mpmath.mpf(delta)) ** count * (1 - mpmath.fsum(terms))

        assert exact(found) <= total
        assert found == 0 or exact(found * (1 - 1e-6)) >= total * (1 - 1e-2)


def test_an_epsilon_beyond_the_range_of_numbers_is_infinite_or_large() -> None:
    assert optimal_epsilon(15.0, delta=1e-9, count=88, total_delta=1e-5) > 700
