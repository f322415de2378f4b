"""Values of compositions, frozen from dp_accounting 0.6.0, opacus 1.6.0, prv_accountant and independent code."""

from __future__ import annotations

import math

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.accountant import advanced_composition
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from dppipe.privacy.accountants import (
    Advanced,
    Basic,
    Certificate,
    Estimate,
    Gdp,
    Pld,
    Rdp,
    Tcdp,
    Zcdp,
)
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.rdp.concentrated import (
    LIMITS,
    sampled_rhos,
    zcdp_epsilon,
)
from dppipe.privacy.textbook.one_step import amplified
from dppipe.privacy.textbook.theorems import advanced_epsilon, basic_epsilon, optimal_epsilon


def gaussian(z: float) -> dp_accounting.DpEvent:
    return dp_accounting.GaussianDpEvent(float(z))


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(float(rate), gaussian(z))


def subset(records: int, size: int, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.SampledWithoutReplacementDpEvent(records, size, gaussian(z))


def spent(
    accountant: Accountant,
    *steps: tuple[dp_accounting.DpEvent, int],
    delta: float,
    relation: str = "zero_out",
) -> float:
    return accountant.compose(steps, relation=relation).epsilon(delta)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "z", "steps", "delta", "pld", "rdp", "tolerance"),
    [
        (0.01, 1, 1000, 1e-5, 1.82824, 2.10137, 5e-4),
        (0.01, 4, 10_000, 1e-5, 0.94700, 1.03549, 5e-4),
        (256 / 60_000, 1.1, 14_062, 1e-5, 2.38169, 2.59656, 5e-4),
        (0.1, 3, 512, 1e-6, 3.76969, 4.05097, 5e-4),
        (0.001, 0.6, 5000, 1e-6, 2.74842, 3.62743, 5e-4),
        (1, 10, 100, 1e-5, 4.37718, 4.72851, 1e-4),
        (0.04, 2, 250, 1e-5, 1.37124, 1.51212, 5e-4),
        (0.01, 0.8, 100, 1e-5, 1.51084, 2.18533, 5e-4),
        (0.5, 5, 50, 1e-6, 3.42935, 3.68701, 5e-4),
    ],
)
def test_poisson_sampled_gaussian(
    rate: float, z: float, steps: int, delta: float, pld: float, rdp: float, tolerance: float
) -> None:
    step = (poisson(rate, z), steps)
    assert spent(Pld(), step, delta=delta) == pytest.approx(pld, abs=tolerance)
    assert spent(Rdp(), step, delta=delta) == pytest.approx(rdp, abs=tolerance)
    assert spent(Pld(), step, delta=delta, relation="add_remove") == spent(Pld(), step, delta=delta)


@pytest.mark.parametrize(
    ("rate", "z", "steps", "delta", "expected"),
    [
        (0.01, 1, 1000, 1e-5, 1.617712),
        (0.001, 0.6, 5000, 1e-6, 1.173924),
        (0.01, 0.8, 100, 1e-5, 0.702486),
    ],
)
def test_central_limit_is_an_estimate_below_the_truth(
    rate: float, z: float, steps: int, delta: float, expected: float
) -> None:
    composed = Gdp().compose([(poisson(rate, z), steps)], relation="zero_out")
    assert isinstance(composed, Estimate)
    assert composed.epsilon(delta) == pytest.approx(expected, abs=1e-5)
    assert composed.epsilon(delta) < spent(Pld(), (poisson(rate, z), steps), delta=delta)


@pytest.mark.parametrize(
    ("delta", "expected"), [(1e-8, 2.69788), (1e-10, 3.29046), (1e-12, 3.91584)]
)
def test_small_deltas(delta: float, expected: float) -> None:
    assert spent(Pld(), (poisson(0.01, 1), 1000), delta=delta) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("delta", "exact"),
    [(1e-8, 2.697867), (1e-9, 2.989582), (1e-10, 3.290443), (1e-11, 3.599874), (1e-12, 3.914298)],
)
def test_round_off_takes_nothing_from_a_small_delta(delta: float, exact: float) -> None:
    """Against losses added up one by one, without a transform, on grids of 1e-3 and 5e-4, extrapolated to none."""
    assert exact <= spent(Pld(), (poisson(0.01, 1), 1000), delta=delta) <= exact + 1e-3


def test_a_hundred_laplace_releases() -> None:
    steps = (dp_accounting.LaplaceDpEvent(10.0), 100)
    assert spent(Basic(), steps, delta=1e-5) == pytest.approx(10)
    assert basic_epsilon([(0.1, 100)]) == pytest.approx(10)
    assert advanced_epsilon([(0.1, 100)], slack=1e-5) == pytest.approx(5.29811, abs=1e-4)
    assert optimal_epsilon(0.1, delta=0.0, count=100, total_delta=1e-5) == pytest.approx(
        4.30679, abs=1e-4
    )
    assert spent(Advanced(), steps, delta=1e-5) == pytest.approx(4.30679, abs=1e-4)


def test_the_optimal_theorem_on_its_own_grid() -> None:
    """Its theorem says epsilon at even multiples of the step's only; dppipe reads the same curve between them."""
    ours = optimal_epsilon(0.1, delta=0.0, count=100, total_delta=1e-5)
    assert 0.2 * math.ceil(ours / 0.2) == pytest.approx(4.4, abs=1e-4)
    theirs = advanced_composition(DifferentialPrivacyParameters(0.1, 0.0), 100, 1e-5)
    assert theirs == pytest.approx(4.4, abs=1e-4)


def test_a_thousand_approximate_mechanisms() -> None:
    assert advanced_epsilon([(0.4, 1000)], slack=1e-6) == pytest.approx(145.44045, abs=1e-4)
    assert optimal_epsilon(0.4, delta=1e-6, count=1000, total_delta=1.001e-3) == pytest.approx(
        135.372, abs=0.05
    )
    sampled = amplified(0.4, 0.01)
    assert advanced_epsilon([(sampled, 1000)], slack=1e-6) == pytest.approx(0.827571, abs=1e-5)
    assert optimal_epsilon(sampled, delta=1e-8, count=1000, total_delta=1.1e-5) == pytest.approx(
        0.63427, abs=1e-3
    )


def test_a_replaced_record_counts_twice() -> None:
    step = (gaussian(1), 1)
    assert spent(Pld(), step, delta=1e-5, relation="replace_one") == pytest.approx(
        9.99726, abs=1e-3
    )
    assert spent(Rdp(), step, delta=1e-5, relation="replace_one") == pytest.approx(
        10.7255, abs=1e-3
    )
    asked_plainly = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE).compose(
        gaussian(1)
    )
    assert asked_plainly.get_epsilon(1e-5) == pytest.approx(
        4.72851, abs=1e-3
    )  # what dppipe must not say


@pytest.mark.parametrize("multiplier", [1.0, 1])
def test_two_gaussians_on_one_sample_are_one(multiplier: float) -> None:
    pair = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(multiplier)] * 2)
    steps = (dp_accounting.PoissonSampledDpEvent(0.01, pair), 100)
    assert spent(Rdp(), steps, delta=1e-5) == pytest.approx(3.06139, abs=1e-4)
    assert spent(Pld(), steps, delta=1e-5) == pytest.approx(
        spent(Pld(), (poisson(0.01, 2**-0.5), 100), delta=1e-5), abs=1e-9
    )


def test_dp_accounting_reads_whole_multipliers_as_next_to_no_loss() -> None:
    pair = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(1)] * 2)
    asked_plainly = RdpAccountant().compose(dp_accounting.PoissonSampledDpEvent(0.01, pair), 100)
    assert asked_plainly.get_epsilon(1e-5) == pytest.approx(
        1.21415, abs=1e-4
    )  # what dppipe must not say


@pytest.mark.parametrize(
    ("records", "size", "z", "steps", "delta", "pld", "rdp", "tolerance"),
    [
        (10_000, 100, 2, 100, 1e-5, 0.7680, 1.48253, 2e-3),
        (10_000, 100, 4, 1000, 1e-5, 0.7186, 1.44530, 3e-3),
        (1000, 100, 4, 50, 1e-4, 1.4748, 3.21978, 1e-3),
    ],
)
def test_sampling_without_replacement(
    records: int,
    size: int,
    z: float,
    steps: int,
    delta: float,
    pld: float,
    rdp: float,
    tolerance: float,
) -> None:
    step = (subset(records, size, z), steps)
    assert spent(Pld(), step, delta=delta, relation="replace_one") == pytest.approx(
        pld, abs=tolerance
    )
    assert spent(Rdp(), step, delta=delta, relation="replace_one") == pytest.approx(rdp, abs=1e-4)


def test_poisson_sampling_of_a_replaced_record() -> None:
    assert spent(
        Pld(), (poisson(0.01, 1), 100), delta=1e-5, relation="replace_one"
    ) == pytest.approx(0.89513, abs=1e-3)


@pytest.mark.parametrize(("most", "expected"), [(130, 3.68407), (150, 1.83047), (170, 1.82824)])
def test_truncated_poisson(most: int, expected: float) -> None:
    event = dp_accounting.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, most, 1.0)
    assert spent(Pld(), (event, 1000), delta=1e-5) == pytest.approx(expected, abs=1e-3)


def test_cut_off_batches_by_adding_to_delta() -> None:
    overflow = 1000 * float(stats.binom.sf(180, 10_000, 0.01))
    assert overflow / 1000 == pytest.approx(1.615e-13, rel=1e-2)
    plain = Pld().compose([(poisson(0.01, 1), 1000)], relation="zero_out")
    added = plain.epsilon(1e-5 - overflow * (1 + 2.718281828**1.83))
    assert added == pytest.approx(1.82826, abs=1e-3)


@pytest.mark.parametrize(
    ("z", "steps", "delta", "poisson_says", "at_least"),
    [
        (0.5, 1000, 1e-6, 4.2351, 10.9969),
        (1, 100, 1e-5, 0.7180, 4.0632),
        (0.8, 100, 1e-5, 1.5108, 5.6240),
    ],
)
def test_shuffling_is_not_poisson(
    z: float, steps: int, delta: float, poisson_says: float, at_least: float
) -> None:
    assert spent(Pld(), (poisson(1 / steps, z), steps), delta=delta) == pytest.approx(
        poisson_says, abs=1e-3
    )
    assert (
        spent(Pld(), (gaussian(z), 1), delta=delta) >= at_least - 5e-3
    )  # one epoch, charged as one unsampled release


@pytest.mark.parametrize(
    ("z", "epochs", "expected"), [(1, 10, 17.85659), (2, 10, 7.51128), (5, 20, 3.84861)]
)
def test_epochs_without_amplification(z: float, epochs: int, expected: float) -> None:
    assert spent(Gdp(), (gaussian(z), epochs), delta=1e-5) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("most", "expected"), [(1, 1.82824), (2, 3.97909), (5, 11.63798)])
def test_users_with_several_sampled_examples(most: int, expected: float) -> None:
    counts = range(most + 1)
    event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
        1.0, [float(k) for k in counts], [float(stats.binom.pmf(k, most, 0.01)) for k in counts]
    )
    assert spent(Pld(), (event, 1000), delta=1e-5) == pytest.approx(expected, abs=1e-3)


def test_truncated_concentration() -> None:
    release, rate = 1 / 32, 0.01  # sampling by Bun et al. (2018): (13 q^2 rho, ln(1/q)/4rho)
    rho, omega = 13 * rate**2 * release, math.log(1 / rate) / (4 * release)
    assert omega == pytest.approx(36.84, abs=2e-3)
    assert zcdp_epsilon(1000 * rho, 1e-5, omega=omega) == pytest.approx(1.168, abs=2e-3)
    place = next(i for i, limit in enumerate(LIMITS) if limit >= omega)
    numeric = 1000 * float(sampled_rhos(poisson(0.01, 4), relation="zero_out")[place])
    assert zcdp_epsilon(numeric, 1e-5, omega=LIMITS[place]) == pytest.approx(0.315, abs=2e-3)
    assert spent(Pld(), (poisson(0.01, 4), 1000), delta=1e-5) == pytest.approx(0.272, abs=2e-3)
    assert 0.272 < spent(Tcdp(), (poisson(0.01, 4), 1000), delta=1e-5) < 0.317


def test_dynamic_schedule_at_full_batch() -> None:
    multipliers = [0.74639035, 0.72698700, 0.70808806, 0.68968042, 0.67175131]
    composed = Gdp().compose([(gaussian(z), 1) for z in multipliers], relation="zero_out")
    assert isinstance(composed, Certificate)
    assert composed.curve.parameters()["mu"] == pytest.approx(3.16227766, abs=1e-5)
    assert composed.epsilon(1e-5) == pytest.approx(17.856587, abs=1e-5)


def test_linear_schedule() -> None:
    steps = [(poisson(0.01, 2 - t / 99), 1) for t in range(100)]
    assert spent(Pld(), *steps, delta=1e-5) == pytest.approx(0.40674, abs=1e-3)
    assert spent(Rdp(), *steps, delta=1e-5) == pytest.approx(1.01025, abs=1e-3)


def test_step_schedule() -> None:
    steps = [(poisson(0.02, 2), 200), (poisson(0.02, 1.5), 200), (poisson(0.02, 1), 100)]
    assert spent(Pld(), *steps, delta=1e-5) == pytest.approx(1.71779, abs=1e-3)
    assert spent(Rdp(), *steps, delta=1e-5) == pytest.approx(2.09592, abs=1e-3)


def test_batch_schedule() -> None:
    steps = [(poisson(rate, 1.2), 200) for rate in (0.005, 0.01, 0.02)]
    assert spent(Pld(), *steps, delta=1e-5) == pytest.approx(1.40973, abs=1e-3)
    assert spent(Rdp(), *steps, delta=1e-5) == pytest.approx(1.61399, abs=1e-3)


def test_steps_at_full_batch_by_zcdp() -> None:
    assert spent(Zcdp(), (gaussian(10), 16), delta=1e-5) < 2
