"""The privacy curve of losses on a grid, against the same sums with forty digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.pld.grid import LossPmf

ways = st.builds(
    lambda logs, lowest, infinite: LossPmf(lowest, np.exp(logs), infinite),
    st.lists(st.floats(-40, -4), min_size=1, max_size=40),
    st.integers(-60, 60),
    st.sampled_from([0.0, 1e-18, 1e-6]),
)
intervals = st.sampled_from([1e-4, 0.01, 0.5])


def exact_delta(way: LossPmf, epsilon: float, interval: float) -> mpmath.mpf:
    places = range(way.lowest, way.lowest + len(way.probabilities))
    gaps = [
        (mpmath.mpf(epsilon) - place * mpmath.mpf(interval), p)
        for place, p in zip(places, way.probabilities, strict=True)
    ]
    return way.infinite + mpmath.fsum(
        -mpmath.expm1(gap) * mpmath.mpf(float(p)) for gap, p in gaps if gap < 0
    )


@settings(max_examples=100, deadline=None)
@given(ways, intervals, st.floats(-0.5, 1.5))
def test_delta_is_never_below_the_exact_sum_and_next_to_it(
    way: LossPmf, interval: float, where: float
) -> None:
    epsilon = (way.lowest + where * len(way.probabilities)) * interval
    with mpmath.workdps(40):
        assert exact_delta(way, epsilon, interval) <= way.delta(epsilon, interval=interval)
        assert (
            way.delta(epsilon, interval=interval)
            <= exact_delta(way, epsilon, interval) * (1 + 1e-11) + 1e-15
        )


@settings(max_examples=100, deadline=None)
@given(ways, intervals, st.floats(-42, 0))
def test_epsilon_is_the_least_whose_delta_is_small_enough(
    way: LossPmf, interval: float, log_delta: float
) -> None:
    delta = math.exp(log_delta)
    epsilon = way.epsilon(delta, interval=interval)
    if epsilon == math.inf:
        assert way.infinite * (1 + 1e-11) > delta
        return
    with mpmath.workdps(40):
        assert exact_delta(way, epsilon, interval) <= delta
        if epsilon > 0:
            assert exact_delta(way, epsilon * (1 - 1e-9) - 1e-9, interval) >= delta * (1 - 1e-9)


@settings(max_examples=200, deadline=None)
@given(st.integers(100, 1400), st.floats(0.01, 0.99), st.floats(0.05, 0.5))
def test_epsilon_is_high_enough_where_its_last_digits_count(
    place: int, share: float, interval: float
) -> None:
    way = LossPmf(place, np.array([0.25, 0.5]), 0.0)
    with mpmath.workdps(40):
        delta = float(exact_delta(way, (place + share) * interval, interval))
        assert exact_delta(way, way.epsilon(delta, interval=interval), interval) <= delta


def test_a_single_loss_has_the_curve_of_one() -> None:
    way = LossPmf(3, np.array([0.5]), 0.0)
    assert way.delta(1.0, interval=1.0) == pytest.approx(0.5 * -math.expm1(-2))
    assert way.epsilon(0.5 * -math.expm1(-2), interval=1.0) == pytest.approx(1.0)
    assert way.delta(3.0, interval=1.0) == 0.0
    assert way.epsilon(0.0, interval=1.0) == pytest.approx(3.0)
