"""Mu of Gaussian differential privacy: vectors, and a cover of every certified curve."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.accountants.base import Certificate
from dppipe.privacy.failures import FailureCurve
from dppipe.privacy.gaussian import GaussianCurve, gaussian_delta, gaussian_scale
from dppipe.privacy.tradeoff.gaussian_cover import covering_mu
from dppipe.privacy.tradeoff.one_point import OnePoint


def certificate(curve):
    return Certificate("pld", "zero_out", curve)


def points_of(cost, delta):
    """Return many epsilons up to that of delta, and the cost's delta at each."""
    epsilons = np.linspace(0, cost.epsilon(delta), 431)
    return epsilons, np.array([cost.delta(float(epsilon)) for epsilon in epsilons])


def covers(mu, points):
    epsilons, deltas = points
    return bool(np.all(gaussian_delta(epsilons, 1 / mu) >= deltas))


def test_mu_equals_the_vectors():
    known = {0.5: 0.142211, 1: 0.268051, 2: 0.501552, 3: 0.719117, 4: 0.924931, 8: 1.666031}
    for epsilon, mu in known.items():
        curve = GaussianCurve(mu=1 / gaussian_scale(epsilon, 1e-5))
        assert covering_mu(certificate(curve), delta=1e-5) == pytest.approx(mu, abs=1e-6)


def test_epsilon_and_delta_of_mu_equal_the_vectors():
    for mu, epsilon, delta in (
        (0.5, 1.993091, 0.197413),
        (1, 4.377178, 0.382925),
        (2, 9.997256, 0.682689),
    ):
        assert GaussianCurve(mu=mu).epsilon(1e-5) == pytest.approx(epsilon, abs=1e-6)
        assert GaussianCurve(mu=mu).delta(0.0) == pytest.approx(delta, abs=1e-6)


@given(st.floats(0.01, 20.0))
def test_the_mu_of_a_gaussian_release_is_its_own(mu):
    assert covering_mu(certificate(GaussianCurve(mu=mu)), delta=1e-5) == mu


@settings(deadline=None, max_examples=40)
@given(st.floats(0.02, 5.0), st.floats(1e-9, 1e-3))
def test_the_mu_of_points_of_a_gaussian_curve_is_hardly_larger(mu, delta):
    hidden = certificate(FailureCurve(GaussianCurve(mu=mu), 0.0))
    assert mu <= covering_mu(hidden, delta=delta) <= mu * 1.001


COSTS = {
    "few large steps": (Pld, PoissonSampledDpEvent(0.1, GaussianDpEvent(0.8)), 5),
    "many small steps": (Pld, PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000),
    "by Renyi divergences": (Rdp, PoissonSampledDpEvent(0.1, GaussianDpEvent(1.5)), 50),
    "laplace": (Pld, LaplaceDpEvent(1.0), 3),
}


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("name", COSTS)
def test_the_gaussian_curve_covers_a_certificate_and_a_smaller_one_does_not(name, delta):
    accountant, event, count = COSTS[name]
    cost = accountant().compose([(event, count)], relation="zero_out")
    mu = covering_mu(cost, delta=delta)
    points = points_of(cost, delta)
    assert covers(mu, points)
    assert not covers(mu * 0.997, points)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 12.0), st.floats(1e-9, 1e-3))
def test_the_gaussian_curve_covers_a_claim_known_at_one_point(epsilon, delta):
    cost = certificate(OnePoint(epsilon, delta))
    assert covers(covering_mu(cost, delta=delta), points_of(cost, delta))


def test_a_bound_that_may_fail_has_a_mu_from_its_delta_up_only():
    cost = certificate(FailureCurve(GaussianCurve(mu=0.5), 1e-6))
    assert 0.5 < covering_mu(cost, delta=1e-5) < 0.51
    assert covering_mu(cost, delta=1e-6) is None


def test_a_delta_that_even_epsilon_0_meets_is_covered_at_epsilon_0():
    cost = certificate(FailureCurve(GaussianCurve(mu=0.1), 0.0))
    assert cost.epsilon(0.5) == 0
    assert covering_mu(cost, delta=0.5) == pytest.approx(0.1, rel=1e-6)
