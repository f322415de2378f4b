"""Renyi divergences against fifty digits: what is charged is never below the truth, not even by round-off."""

from __future__ import annotations

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.accountants import Rdp
from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.rdp.concentrated import LIMITS, sampled_rhos
from dppipe.privacy.rdp.divergences import divergences

TINY = [
    (7.569369452455044e-05, 176.0346628995813),
    (1.2231187465227449e-05, 37.806994650274014),
    (2e-7, 1.3),
    (1e-6, 4.4),
]
"""Rates and noise multipliers at which a step costs about 1e-13 or less."""


def sampled(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))


def exact_divergence(rate: float, z: float, order: float) -> mpmath.mpf:
    """Integrate (1 + u)^a - 1 - a u, where 1 + u is the ratio of the densities: u has mean 0, so nothing cancels."""
    with mpmath.workdps(50):
        q, s, a = mpmath.mpf(rate), mpmath.mpf(z), mpmath.mpf(order)
        step = min(s / 8, s**2 / 2)
        total = mpmath.mpf(0)
        for i in range(int((a + 28 * s) / step) + 1):
            x = -14 * s + i * step
            u = q * mpmath.expm1((2 * x - 1) / (2 * s**2))
            total += mpmath.exp(-((x / s) ** 2) / 2) * ((1 + u) ** a - 1 - a * u)
        return mpmath.log1p(total * step / (s * mpmath.sqrt(2 * mpmath.pi))) / (a - 1)


@pytest.mark.parametrize("order", [1.01, 1.1, 1.5, 2.0, 9.9])
@pytest.mark.parametrize(("rate", "z"), [*TINY, (0.3, 0.5), (0.999, 300.0)])
def test_a_sampled_divergence_is_never_below_the_exact_one(
    rate: float, z: float, order: float
) -> None:
    claimed, exact = (
        divergences(sampled(rate, z), relation="zero_out", orders=(order,))[0],
        exact_divergence(rate, z, order),
    )
    assert claimed >= exact
    assert claimed <= float(exact) * (1 + 1e-12) + 2e-14 + 3e-15 / (order - 1)


@settings(max_examples=100, deadline=None)
@given(log_epsilon=st.floats(-9, 2), order=st.floats(1.01, 1024))
def test_a_laplace_divergence_is_never_below_the_exact_one(
    log_epsilon: float, order: float
) -> None:
    multiplier = 10**-log_epsilon
    (claimed,) = divergences(
        dp_accounting.LaplaceDpEvent(multiplier), relation="zero_out", orders=(order,)
    )
    with mpmath.workdps(50):
        a, epsilon = mpmath.mpf(order), 1 / mpmath.mpf(multiplier)
        moment = (a * mpmath.exp((a - 1) * epsilon) + (a - 1) * mpmath.exp(-a * epsilon)) / (
            2 * a - 1
        )
        exact = mpmath.log(moment) / (a - 1)
        assert claimed >= exact
        assert claimed <= exact * (1 + mpmath.mpf(1e-12)) + 3e-15 * epsilon


@pytest.mark.parametrize(("rate", "z"), TINY[:2])
def test_tiny_steps_are_not_certified_at_epsilon_0_where_their_distance_exceeds_delta(
    rate: float, z: float
) -> None:
    """So many tiny steps are a Gaussian of mu = q sqrt(T (e^(1/z^2) - 1)), whose distance at epsilon 0 is 2 Phi(mu/2) - 1."""
    delta = 1e-5
    for steps in (1000, 3000, 10_000, 30_000):
        mu = rate * math.sqrt(steps * math.expm1(z**-2))
        distance = math.erf(mu / 2 / math.sqrt(2))
        certificate = Rdp().compose([(sampled(rate, z), steps)], relation="zero_out")
        assert certificate.delta(0.0) >= distance * (1 - 1e-3)
        assert distance <= delta or certificate.epsilon(delta) > 0


@pytest.mark.parametrize("z", [3.0, 100.0, 1e5])
def test_no_delta_at_epsilon_0_is_below_the_exact_gaussians(z: float) -> None:
    """Total variation is bounded by the divergence at a low order (Bretagnolle and Huber 1979), and by nothing smaller."""
    exact = float(gaussian_delta(0.0, z))
    certificate = Rdp().compose([(dp_accounting.GaussianDpEvent(z), 1)], relation="zero_out")
    assert exact <= certificate.delta(0.0) <= 2 * exact
    assert certificate.epsilon(0.99 * exact) > 0


@pytest.mark.parametrize(("rate", "z"), [(0.01, 0.8), (0.001, 4.0), (0.3, 1.5)])
def test_rho_times_an_order_bounds_the_divergence_up_to_the_next_order_of_the_grid(
    rate: float, z: float
) -> None:
    """So it bounds every order between the two, whatever the divergence does there: it never falls."""
    rhos = sampled_rhos(sampled(rate, z), relation="zero_out")
    found = divergences(sampled(rate, z), relation="zero_out", orders=LIMITS)
    lower = np.array([1.0, *LIMITS[:-1]])
    assert (rhos * lower >= found * (1 - 1e-12)).all()
    assert (np.diff(rhos) >= 0).all()
