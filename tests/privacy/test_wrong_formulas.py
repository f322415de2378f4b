"""Formulas that circulate in lecture notes and are wrong or no bound: none of them is what dppipe computes.

Here are those about accounting; `test_wrong_steps.py` has those about clipping, noise and averages.
"""

from __future__ import annotations

import math

import dp_accounting
import pytest
from scipy import optimize, stats

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Gdp, Pld, Tcdp, Zcdp
from dppipe.privacy.accountants.base import Estimate
from dppipe.privacy.budget import Budget
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.filters.filters import ZcdpFilter
from dppipe.privacy.filters.step_filters import step_filter
from dppipe.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_scale
from dppipe.privacy.textbook.one_step import amplified, step_epsilon
from dppipe.privacy.textbook.theorems import advanced_epsilon, optimal_epsilon

DELTA = 1e-5


def gaussian(z: float) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(z)


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, gaussian(z))


def pld(rate: float, z: float, steps: int) -> float:
    return Pld().compose([(poisson(rate, z), steps)], relation="zero_out").epsilon(DELTA)


def test_delta_is_not_the_probability_of_a_large_loss() -> None:
    exact = Pld().compose([(gaussian(1.0), 1)], relation="zero_out").delta(1.0)
    assert exact < 0.5 * float(stats.norm.sf(0.5))


def test_calibration_is_not_the_classic_formula() -> None:
    for epsilon in (0.5, 1.0, 10.0):
        found = calibrate(
            Pld(), lambda z: [(gaussian(z), 1)], budget=Budget(epsilon=epsilon, delta=DELTA)
        ).scale
        assert found == pytest.approx(gaussian_scale(epsilon, DELTA), rel=1e-4)
    classic = math.sqrt(2 * math.log(1.25 / DELTA)) / 10
    assert (
        float(gaussian_delta(10.0, classic)) > 2 * DELTA
    )  # what the classic noise really gives there
    assert found > classic


def test_noise_scale_has_a_square_root_and_no_doubled_logarithm() -> None:
    without_root = 2 * math.log(1.25 / DELTA) / 1.0
    assert gaussian_scale(1.0, DELTA) < 0.2 * without_root


def test_zcdp_of_a_gaussian_has_no_logarithm_and_no_factor_two() -> None:
    def rho(relation: str) -> float:
        composed = Zcdp().compose([(gaussian(3.0), 1)], relation=relation)  # type: ignore[arg-type]
        return float(composed.curve.parameters()["rho"])

    assert rho("zero_out") == pytest.approx(1 / (2 * 3.0**2))  # not 1/sigma^2
    assert rho("add_remove") == pytest.approx(1 / (2 * 3.0**2))
    assert rho("replace_one") == pytest.approx(2 / 3.0**2)


def test_noise_grows_with_the_root_of_the_steps_and_no_logarithm_of_them() -> None:
    """With a share of delta for each step, 100 steps would need sqrt(ln(100/delta) / ln(1/delta)) times as much, 18 % more."""

    def scale(steps: int) -> float:
        return calibrate(
            Zcdp(), lambda z: [(gaussian(z), steps)], budget=Budget(epsilon=1, delta=DELTA)
        ).scale

    assert scale(100) == pytest.approx(10 * scale(1), rel=1e-4)


def test_replacing_a_record_has_twice_the_sensitivity() -> None:
    replaced = Gdp().compose([(gaussian(2.0), 1)], relation="replace_one").epsilon(DELTA)
    assert replaced == pytest.approx(
        Gdp().compose([(gaussian(1.0), 1)], relation="zero_out").epsilon(DELTA)
    )


def test_advanced_composition_keeps_the_mean_of_the_loss() -> None:
    steps, epsilon = 1000, 0.4
    dropped = epsilon * math.sqrt(2 * steps * math.log(1 / 1e-6))
    wrong_unit = dropped + steps * math.tanh(
        epsilon / 2
    )  # an epsilon is missing in the second term
    right = advanced_epsilon([(epsilon, steps)], slack=1e-6)
    assert right == pytest.approx(dropped + steps * epsilon * math.tanh(epsilon / 2))
    assert right != pytest.approx(wrong_unit, rel=0.1)
    assert dropped < optimal_epsilon(
        epsilon, delta=1e-6, count=steps, total_delta=1.001e-3
    )  # so it is no bound


def test_amplification_is_not_q_epsilon() -> None:
    for epsilon in (0.1, 1.0, 3.0):
        assert amplified(epsilon, 0.01) > 0.01 * epsilon


def test_rate_times_epsilon_times_root_of_steps_is_no_bound() -> None:
    rate, z, steps = 0.01, 0.8, 100
    one = Pld().compose([(gaussian(z), 1)], relation="zero_out").epsilon(DELTA)
    assert rate * one * math.sqrt(steps) < pld(rate, z, steps)


@pytest.mark.parametrize(("z", "steps"), [(4.0, 1000), (0.8, 100)])
def test_q_squared_rho_is_not_the_zcdp_of_a_sampled_step(z: float, steps: int) -> None:
    rate = 0.01
    claimed = rate**2 / (2 * z**2)
    exact = Tcdp().compose([(poisson(rate, z), 1)], relation="zero_out").curve.parameters()
    assert min(exact["rhos"]) > claimed
    with pytest.raises(PrivacyRefusal, match="sampling"):
        Zcdp().compose([(poisson(rate, z), steps)], relation="zero_out")


def test_sampled_central_limit_is_never_a_certificate() -> None:
    composed = Gdp().compose([(poisson(0.001, 0.6), 5000)], relation="zero_out")
    assert isinstance(composed, Estimate)
    assert composed.epsilon(1e-6) < 0.5 * Pld().compose(
        [(poisson(0.001, 0.6), 5000)], relation="zero_out"
    ).epsilon(1e-6)


def test_different_epsilons_per_step_compose() -> None:
    steps = [(gaussian(z), 1) for z in (1.0, 2.0, 4.0)]
    exact = Gdp().compose(steps, relation="zero_out")
    assert exact.curve.parameters()["mu"] == pytest.approx(math.sqrt(1 + 1 / 4 + 1 / 16))


def test_the_analytic_gaussian_keeps_its_exponential() -> None:
    """Without e^epsilon the two tails differ by less at every scale, and the smallest noise is too small."""

    def missing(s: float) -> float:
        return float(stats.norm.cdf(0.5 / s - s) - stats.norm.cdf(-0.5 / s - s))

    right = gaussian_scale(1.0, DELTA)
    assert float(gaussian_delta(1.0, right)) == pytest.approx(DELTA, rel=1e-6)
    assert missing(right) > 1.5 * DELTA  # so another scale would be taken for the right one


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_the_analytic_gaussian_is_scaled_by_half_the_root_of_epsilon(epsilon: float) -> None:
    """The smallest u whose value is at most delta gives the scale (sqrt(2 + u) + sqrt(u)) / (2 sqrt(epsilon)), not / epsilon."""

    def value(u: float) -> float:
        return float(
            stats.norm.cdf(-math.sqrt(epsilon * u))
            - math.exp(epsilon) * stats.norm.cdf(-math.sqrt(epsilon * (u + 2)))
        )

    u = float(optimize.brentq(lambda u: value(u) - DELTA, 0, 1000 / epsilon, xtol=1e-13))
    roots = math.sqrt(2 + u) + math.sqrt(u)
    right = gaussian_scale(epsilon, DELTA)
    assert right == pytest.approx(roots / (2 * math.sqrt(epsilon)), rel=1e-6)
    assert abs(math.log(right / (roots / epsilon))) > 0.3


def test_sampling_makes_q_delta_of_delta() -> None:
    alone = gaussian_epsilon(1.0, DELTA)
    assert step_epsilon(
        poisson(0.01, 1.0), delta=0.01 * DELTA, relation="zero_out"
    ) == pytest.approx(amplified(alone, 0.01))


def test_noise_is_not_larger_than_it_has_to_be_by_a_logarithm() -> None:
    with_logarithm = 2 * math.log(
        2 / DELTA
    )  # instead of about sqrt(2 log(1.25 / delta)), at epsilon 1
    assert with_logarithm > 2.5 * math.sqrt(2 * math.log(1.25 / DELTA))
    assert gaussian_scale(1.0, DELTA) < with_logarithm / 6


def test_noise_for_one_replaced_record_is_not_what_a_claim_without_its_proof_says() -> None:
    """Noise sqrt(ln(1/delta)) C / (epsilon n) on a mean of sensitivity 2C/n is a multiplier of 1.70, where 3.73 is needed."""
    claimed = math.sqrt(math.log(1 / DELTA)) / 2
    assert claimed == pytest.approx(1.70, abs=0.01)
    needed = calibrate(
        Pld(),
        lambda z: [(gaussian(z), 1)],
        budget=Budget(epsilon=1, delta=DELTA, relation="replace_one"),
    ).scale
    assert needed / 2 == pytest.approx(3.7306, abs=1e-3)


def test_the_logarithm_is_the_natural_one() -> None:
    epsilon, steps = 0.4, 1000
    by_tens = epsilon * math.sqrt(2 * steps * math.log10(1 / 1e-3))
    assert by_tens == pytest.approx(30.98, abs=0.01)
    assert advanced_epsilon([(epsilon, steps)], slack=1e-3) > 100
    assert optimal_epsilon(epsilon, delta=1e-6, count=steps, total_delta=1.001e-3) > 4 * by_tens


def test_the_residual_budget_is_twice_rho() -> None:
    """A step asks 1/sigma^2 of R: so R is 2 rho for a record that is zeroed out, not rho."""
    budget = Budget(epsilon=2.0, delta=DELTA)
    rho = ZcdpFilter().capacity(epsilon=2.0, delta=DELTA).amount
    steps = step_filter("zcdp", budget=budget, planned=[(gaussian(5.0), 1)])
    admitted = 0
    while steps.fits(gaussian(5.0)):
        steps.charge(gaussian(5.0))
        admitted += 1
    assert admitted == math.floor(2 * rho * 5.0**2)
