"""The classic Gaussian noise beside the exact one: true costs by mpmath, where it holds, and where it doesn't."""

from __future__ import annotations

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dppipe.privacy.textbook.classic_gaussian import classic_noise, failing_epsilon

EPSILONS = st.floats(1e-3, 100)
DELTAS = st.floats(1e-12, 0.3)


def true_delta(epsilon: float, s: float) -> mpmath.mpf:
    """Return Balle and Wang's delta with 60 digits."""
    with mpmath.workdps(60):
        one = mpmath.mpf(1) / (2 * mpmath.mpf(s))
        far = mpmath.mpf(epsilon) * mpmath.mpf(s)
        return mpmath.ncdf(one - far) - mpmath.exp(epsilon) * mpmath.ncdf(-one - far)


def test_golden_noise_of_the_classic_and_of_the_exact_formula() -> None:
    found = classic_noise(1.0, 1e-5)
    assert found.noise == pytest.approx(4.8448052626, abs=1e-9)
    assert found.exact == pytest.approx(3.7306316348, abs=1e-9)
    assert classic_noise(10.0, 1e-5).true_delta == pytest.approx(2.2654e-5, abs=1e-8)


@settings(deadline=None)
@given(epsilon=EPSILONS, delta=DELTAS)
def test_the_true_cost_of_classic_noise_is_an_upper_bound_and_tight(
    epsilon: float, delta: float
) -> None:
    found = classic_noise(epsilon, delta)
    with mpmath.workdps(60):
        exact = mpmath.sqrt(2 * mpmath.log(mpmath.mpf("1.25") / mpmath.mpf(delta))) / epsilon
        assert exact <= found.noise <= exact * (1 + mpmath.mpf("1e-14"))
        assert true_delta(found.true_epsilon, found.noise) <= delta
        assert true_delta(epsilon, found.noise) <= found.true_delta
        assert true_delta(epsilon, found.exact) <= delta
        if found.true_epsilon > 0:
            assert true_delta(found.true_epsilon * (1 - 1e-9) - 2e-9, found.noise) > delta
        assert true_delta(epsilon, found.exact * (1 - 1e-6)) > delta


@settings(deadline=None)
@given(epsilon=st.floats(1e-3, 0.999), delta=DELTAS)
def test_classic_noise_holds_and_wastes_where_it_is_proven(epsilon: float, delta: float) -> None:
    found = classic_noise(epsilon, delta)
    assert found.proven
    assert found.holds
    assert found.waste > 0
    assert found.fails_from > 1


@settings(deadline=None)
@given(delta=DELTAS, above=st.floats(1.001, 50))
def test_classic_noise_fails_from_one_epsilon_on(delta: float, above: float) -> None:
    edge = failing_epsilon(delta)
    assert true_delta(edge, classic_noise(edge, delta).noise) <= delta
    worse = classic_noise(edge * above, delta)
    assert not worse.holds
    assert not worse.proven
    assert worse.waste < 0
    assert true_delta(edge * above, worse.noise) > delta


@settings(deadline=None)
@given(epsilon=EPSILONS)
@example(epsilon=1.0)
def test_the_classic_formula_is_proven_below_one_only(epsilon: float) -> None:
    assert classic_noise(epsilon, 1e-5).proven == (epsilon < 1)
