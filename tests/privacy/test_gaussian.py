"""The Gaussian mechanism against forty digits."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import dp_accounting
import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from dppipe.privacy import gaussian
from dppipe.privacy.accountants import Pld
from dppipe.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_scale


def exact_delta(epsilon: float, s: float) -> mpmath.mpf:
    """Write delta out: Phi(a) - e^epsilon Phi(b), in mpmath's own precision."""
    epsilon, s = mpmath.mpf(epsilon), mpmath.mpf(s)
    return mpmath.ncdf(1 / (2 * s) - epsilon * s) - mpmath.exp(epsilon) * mpmath.ncdf(
        -1 / (2 * s) - epsilon * s
    )


@settings(max_examples=300, deadline=None)
@given(st.floats(math.log(0.02), math.log(1e5)), st.floats(-12, 12))
def test_delta_is_never_below_the_exact_value_and_next_to_it(log_s: float, where: float) -> None:
    s = math.exp(log_s)
    epsilon = (0.5 / s - where) / s
    with mpmath.workdps(60):
        exact = exact_delta(epsilon, s)
        found = float(gaussian_delta(epsilon, s))
        assert exact <= found <= min(1, exact * (1 + 1e-9 * (1 + s)))


@settings(max_examples=100, deadline=None)
@given(st.floats(math.log(0.02), math.log(1e5)), st.floats(-690, -1))
def test_epsilon_is_never_below_the_exact_value_and_next_to_it(
    log_s: float, log_delta: float
) -> None:
    s, delta = math.exp(log_s), math.exp(log_delta)
    epsilon = gaussian_epsilon(s, delta)
    with mpmath.workdps(400):
        assert exact_delta(epsilon, s) <= delta
        assert epsilon == 0 or exact_delta(epsilon * (1 - 1e-9) - 1e-9, s) >= delta * (
            1 - 1e-9 * (1 + s)
        )


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 1e4, 1e6])
@pytest.mark.parametrize("off", [-1e-13, 1e-13])
def test_roots_that_are_found_too_low_within_their_tolerance_are_made_good(
    epsilon: float, off: float
) -> None:
    brentq = optimize.brentq

    def near(*args: Any, **settings: Any) -> float:
        return float(brentq(*args, **settings)) + off

    with mock.patch.object(gaussian.optimize, "brentq", near), mpmath.workdps(60):
        s = gaussian_scale(epsilon, 1e-6)
        assert exact_delta(epsilon, s) <= 1e-6
        assert exact_delta(gaussian_epsilon(s, 1e-9), s) <= 1e-9
        assert exact_delta(gaussian_epsilon(10.0, 0.03), 10.0) <= 0.03


def test_a_delta_below_all_digits_has_no_epsilon() -> None:
    assert gaussian_epsilon(1.0, 1e-305) == math.inf


@settings(max_examples=300, deadline=None)
@given(
    st.floats(math.log(1e-3), math.log(1e8)),
    st.floats(-40, 40),
    st.sampled_from([-1, 1]),
    st.sampled_from([-1, 1]),
)
def test_delta_is_not_too_small_if_its_numbers_were_rounded_before(
    log_s: float, where: float, one: int, other: int
) -> None:
    s = math.exp(log_s)
    epsilon = (0.5 / s - where) / s
    with mpmath.workdps(800):
        off = 10 * mpmath.mpf(2) ** -53
        exact = exact_delta(epsilon * (1 + one * off), s * (1 + other * off))
        assert exact <= float(gaussian_delta(epsilon, s)) + 1e-300


@pytest.mark.parametrize(
    ("z", "epsilon", "delta"), [(1e-200, math.inf, 1.0), (1e-120, math.inf, 1.0), (1e155, 0.0, 0.0)]
)
def test_noise_at_the_ends_of_the_range_of_numbers_has_a_curve(
    z: float, epsilon: float, delta: float
) -> None:
    composed = Pld().compose([(dp_accounting.GaussianDpEvent(z), 3)], relation="replace_one")
    assert composed.epsilon(1e-5) == epsilon
    assert composed.delta(1.0) == delta
