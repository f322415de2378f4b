"""Group privacy: k epsilon, the exact Gaussian curve and the conversion, each an upper bound by mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.gaussian import gaussian_epsilon
from dppipe.privacy.parallel import disjoint_epsilon
from dppipe.privacy.textbook.group import (
    converted_epsilon,
    converted_gaussian_epsilon,
    gaussian_group_epsilon,
    group_delta,
    pure_group_epsilon,
)

SIZES = st.integers(1, 40)
DELTAS = st.floats(1e-12, 0.1)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), st.integers(1, 1000))
def test_a_pure_group_has_k_epsilon_rounded_up(epsilon: float, k: int) -> None:
    exact = k * Fraction(repr(epsilon))
    found = Fraction(repr(pure_group_epsilon(epsilon, k)))
    assert exact <= found <= exact * Fraction(100001, 100000)


@pytest.mark.parametrize(
    ("epsilon", "k", "expected"), [(0.1, 3, 0.3), (Fraction(1, 3), 3, 1.0), (0.7, 10, 7.0)]
)
def test_a_pure_group_of_plain_numbers_is_exact(
    epsilon: float | Fraction, k: int, expected: float
) -> None:
    assert pure_group_epsilon(epsilon, k) == expected


@settings(deadline=None)
@given(st.floats(0.0, 20), DELTAS, SIZES)
def test_the_delta_of_a_group_is_the_sum_along_the_chain(
    epsilon: float, delta: float, k: int
) -> None:
    with mpmath.workdps(60):
        one = mpmath.mpf(repr(epsilon))
        exact = mpmath.mpf(repr(delta)) * sum(mpmath.exp(i * one) for i in range(k))
        found = mpmath.mpf(repr(group_delta(epsilon, delta, k)))
        least = exact * (1 - mpmath.mpf("1e-50"))  # both are rounded to 60 digits
        assert min(least, 1) <= found <= min(exact * (1 + mpmath.mpf("1.01e-5")), 1)


def test_golden_group_of_three() -> None:
    assert group_delta(1.0, 1e-6, 3) == 1.11074e-05  # 1e-6 (1 + e + e^2) = 1.110734e-5
    assert gaussian_group_epsilon(4.0, 2, delta=1e-5) == pytest.approx(1.9930914044, abs=1e-9)
    assert gaussian_group_epsilon(5.0, 5, delta=1e-5) == pytest.approx(4.3771780957, abs=1e-9)


@settings(deadline=None)
@given(st.floats(0.3, 50), st.integers(2, 20), DELTAS)
def test_a_gaussian_group_costs_more_than_k_epsilon_and_less_than_the_conversion(
    s: float, k: int, delta: float
) -> None:
    one = gaussian_epsilon(s, delta)
    exact = gaussian_group_epsilon(s, k, delta=delta)
    assert exact >= k * one * (1 - 1e-9)  # k epsilon at the same delta is no bound
    converted = converted_gaussian_epsilon(s, k, delta=delta)
    assert exact <= converted * (1 + 1e-9) + 1e-9


@settings(deadline=None)
@given(st.floats(0.3, 50), st.integers(1, 20), DELTAS)
def test_a_converted_epsilon_satisfies_the_theorem(s: float, k: int, delta: float) -> None:
    found = converted_gaussian_epsilon(s, k, delta=delta)
    each = found / k / (1 + 1e-12)
    with mpmath.workdps(60):
        half = 1 / (2 * mpmath.mpf(s))
        far = mpmath.mpf(each) * mpmath.mpf(s)
        one = mpmath.ncdf(half - far) - mpmath.exp(each) * mpmath.ncdf(-half - far)
        grown = one * sum(mpmath.exp(i * mpmath.mpf(each)) for i in range(k))
        assert grown <= delta


def test_a_delta_below_float64_still_counts_for_a_group() -> None:
    """One unit's delta is 1e-322 there, and that of the group is 1e-12."""
    assert converted_gaussian_epsilon(0.3, 20, delta=1e-12) > gaussian_group_epsilon(
        0.3, 20, delta=1e-12
    )


def test_a_curve_that_never_falls_has_no_group_epsilon() -> None:
    assert converted_epsilon(lambda epsilon: math.log(1e-3), 2, delta=1e-5) == math.inf


def test_a_pure_curve_converts_to_k_epsilon() -> None:
    found = converted_epsilon(lambda epsilon: -math.inf if epsilon >= 0.5 else -1.0, 4, delta=1e-5)
    assert found == pytest.approx(2.0, abs=1e-8)
    assert found >= 2.0


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=9))
def test_disjoint_parts_cost_the_largest_and_never_less_than_any(parts: list[float]) -> None:
    assert disjoint_epsilon(parts) in parts
    assert all(disjoint_epsilon(parts) >= part for part in parts)
