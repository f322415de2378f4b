"""Values of single mechanisms, frozen from independent tools: dp_accounting 0.6.0, opacus 1.6.0, mpmath and quadrature."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from scipy import stats

from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_scale
from dppipe.privacy.pld.profiles import directions
from dppipe.privacy.rdp.concentrated import zcdp_epsilon
from dppipe.privacy.rdp.divergences import divergences
from dppipe.privacy.textbook.one_step import amplified, step_epsilon


def gaussian(z: float) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(z)


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, gaussian(z))


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [
        (1, 1e-5, 3.7306316348),
        (0.5, 1e-6, 8.0576184807),
        (0.1, 1e-5, 30.749566132),
        (3, 1e-6, 1.5438614178),
        (8, 1e-5, 0.6002290722),
    ],
)
def test_analytic_gaussian_noise(epsilon: float, delta: float, expected: float) -> None:
    assert gaussian_scale(epsilon, delta) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("z", "delta", "expected"),
    [
        (1, 1e-5, 4.3771780957),
        (2, 1e-5, 1.9930914044),
        (0.5, 1e-5, 9.9972561464),
        (5, 1e-6, 0.8341175486),
        (10, 1e-5, 0.3406693647),
    ],
)
def test_epsilon_of_one_gaussian(z: float, delta: float, expected: float) -> None:
    assert gaussian_epsilon(z, delta) == pytest.approx(expected, abs=1e-6)
    assert Pld().compose([(gaussian(float(z)), 1)], relation="zero_out").epsilon(
        delta
    ) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "z", "expected"),
    [(1, 1, 0.126936737507), (0, 1, 0.382924922548), (1, 4, 2.92427210e-6)],
)
def test_delta_of_one_gaussian(epsilon: float, z: float, expected: float) -> None:
    assert float(gaussian_delta(epsilon, z)) == pytest.approx(expected, abs=1e-9)


def test_classic_noise_violates_its_claim_at_large_epsilon() -> None:
    classic = math.sqrt(2 * math.log(1.25 / 1e-5))
    assert classic == pytest.approx(4.8448052626, abs=1e-6)
    assert float(gaussian_delta(10, classic / 10)) == pytest.approx(2.2654e-5, abs=1e-8)


@pytest.mark.parametrize(
    ("rho", "delta", "best"), [(0.5, 1e-5, 4.7283869849), (0.005, 1e-6, 0.4299414688)]
)
def test_zcdp_conversions(rho: float, delta: float, best: float) -> None:
    assert zcdp_epsilon(rho, delta) == pytest.approx(best, abs=1e-6)


def test_zcdp_at_the_orders_of_rdp() -> None:
    assert Rdp().compose([(dp_accounting.GaussianDpEvent(1.0), 1)], relation="zero_out").epsilon(
        1e-5
    ) == pytest.approx(4.7285070672, abs=1e-6)


def test_exact_gaussian_below_zcdp() -> None:
    assert gaussian_epsilon(10, 1e-6) == pytest.approx(0.3968573776, abs=1e-6)


def test_rho_budgets_for_epsilon_1() -> None:
    root = math.log(1 / 1e-5)
    assert (math.sqrt(1 + root) - math.sqrt(root)) ** 2 == pytest.approx(0.0208199383, abs=1e-7)
    assert zcdp_epsilon(0.0305565952, 1e-5) == pytest.approx(1, abs=1e-6)
    assert gaussian_scale(1, 1e-5) ** -2 / 2 == pytest.approx(0.0359257023, abs=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(1, 0.2680511232), (2, 0.5015516900), (8, 1.6660305978)]
)
def test_mu_budgets(epsilon: float, expected: float) -> None:
    assert 1 / gaussian_scale(epsilon, 1e-5) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "order", "expected"),
    [(1, 2, 0.6191236300), (1, 10, 0.9286829021), (0.5, 4, 0.3209265302)],
)
def test_laplace_divergences(epsilon: float, order: float, expected: float) -> None:
    event = dp_accounting.LaplaceDpEvent(1 / epsilon)
    assert divergences(event, relation="zero_out", orders=(float(order),))[0] == pytest.approx(
        expected, abs=1e-9
    )


@pytest.mark.parametrize(
    ("epsilon", "rate", "expected"),
    [(1, 0.01, 0.0170368632), (0.4, 0.01, 0.0049061919), (2, 0.1, 0.4940287080)],
)
def test_generic_amplification(epsilon: float, rate: float, expected: float) -> None:
    assert amplified(epsilon, rate) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "z", "order", "expected", "relative"),
    [
        (0.01, 1, 2, 1.7181342207e-4, 1e-8),
        (0.01, 1, 8, 8.936439076e-4, 1e-8),
        (0.01, 1, 32, 11.246275937, 1e-8),
        (0.01, 1, 2.5, 2.17575332e-4, 1e-6),
        (0.01, 4, 17, 5.5363268e-5, 1e-6),
        (0.2, 1.5, 3.3, 0.0416639921, 1e-6),
    ],
)
def test_sampled_divergences(
    rate: float, z: float, order: float, expected: float, relative: float
) -> None:
    value = divergences(poisson(rate, float(z)), relation="zero_out", orders=(float(order),))[0]
    assert value == pytest.approx(expected, rel=relative)


@pytest.mark.parametrize(
    ("rate", "z", "epsilon", "expected"),
    [(0.01, 1, 0.1, 7.2900376958e-5), (0.01, 1, 0.5, 2.2145190e-7), (0.1, 2, 0.2, 2.8857111180e-4)],
)
def test_delta_of_one_poisson_step(rate: float, z: float, epsilon: float, expected: float) -> None:
    composed = Pld().compose([(poisson(rate, float(z)), 1)], relation="zero_out")
    assert composed.delta(epsilon) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("rate", "z", "epsilon", "expected"),
    [(0.01, 1, 0.1, 7.2900376958e-5), (0.01, 1, 0.5, 2.2145190e-7), (0.1, 2, 0.2, 2.8857111180e-4)],
)
def test_epsilon_of_one_poisson_step_by_the_closed_form(
    rate: float, z: float, epsilon: float, expected: float
) -> None:
    """To a part in 1e8 of delta, from the other end: the closed form's epsilon at the published delta."""
    least, most = (
        step_epsilon(poisson(rate, float(z)), delta=expected * way, relation="zero_out")
        for way in (1 + 1e-8, 1 - 1e-8)
    )
    assert least <= epsilon <= most


def test_delta_of_one_step_without_replacement() -> None:
    event = dp_accounting.SampledWithoutReplacementDpEvent(10_000, 100, gaussian(2.0))
    (both_ways,) = directions(event, relation="replace_one")
    assert both_ways.profile(np.array([0.1])) == pytest.approx(7.290037696e-5, rel=1e-8)
    assert Pld().compose([(event, 1)], relation="replace_one").delta(0.1) == pytest.approx(
        7.290037696e-5, rel=1e-7
    )


def test_probability_of_large_loss_is_not_delta() -> None:
    outcomes_with_loss_above_1 = float(stats.norm.sf(0.5))
    assert outcomes_with_loss_above_1 == pytest.approx(0.3085375387, abs=1e-9)
    assert Pld().compose([(gaussian(1.0), 1)], relation="zero_out").delta(1.0) == pytest.approx(
        0.1269367, abs=1e-7
    )


@pytest.mark.parametrize(("rate", "z"), [(0.01, 1.0), (0.2, 0.7), (0.5, 5.0), (0.003, 20.0)])
def test_quadrature_agrees_with_the_sum_at_whole_orders(rate: float, z: float) -> None:
    from dppipe.privacy.rdp.divergences import _quadrature, _whole_order

    orders = np.array([2.0, 3.0, 7.0, 20.0, 50.0])
    summed = [_whole_order(z, rate, int(order)) for order in orders]
    assert _quadrature(z, rate, orders) == pytest.approx(summed, rel=1e-9, abs=1e-14)
