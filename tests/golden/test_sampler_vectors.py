"""Shuffled epochs and schedules against published and independently computed values."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from scipy import special

from dppipe.clipping import Flat
from dppipe.noise import Constant, Dynamic, DynamicMomentum, Linear, NoiseSchedule, Piecewise
from dppipe.optim import schedules
from dppipe.planning.privacy_plan import PrivateParts, plan_privacy
from dppipe.privacy.accountants import Accountant, Gdp, Pld, Rdp
from dppipe.privacy.budget import Budget
from dppipe.privacy.events.balls_in_bins import event_class
from dppipe.privacy.gaussian import gaussian_epsilon
from dppipe.privacy.rdp.balls_in_bins import _removed
from dppipe.privacy.rdp.divergences import divergences
from dppipe.sampling import FullBatch, Poisson, Sampler, Shuffle


@pytest.fixture(autouse=True)
def only_the_last_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan epsilon at the last step alone: nothing here looks at the others."""
    monkeypatch.setattr("dppipe.privacy.accountants.pld.Pld.curve_points", 1)


def planned(
    sampler: Sampler,
    noise: NoiseSchedule,
    accountant: Accountant,
    *,
    records: int,
    steps: int,
    delta: float = 1e-5,
) -> float:
    budget = Budget(epsilon=1e4, delta=delta)
    made = plan_privacy(
        PrivateParts(sampler, Flat(), noise, accountant, budget),
        name="v",
        records=records,
        steps=steps,
    )
    assert made.steps == steps
    assert made.epsilon is not None
    return made.epsilon


def shuffled_at_least(z: float, batches: int, delta: float) -> float:
    """Bound an epoch of shuffled batches from below (Chua et al. 2024): guess by the largest of its releases.

    One batch in a random place differs: its sum is 2 in one data set and 1 in the other, all others are 0.
    """
    c = np.linspace(-2, 14 * z + 2, 200_001)
    others = (batches - 1) * special.log_ndtr(c / z)
    beyond = [-np.expm1(others + special.log_ndtr((c - shift) / z)) for shift in (2, 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmax(np.log((beyond[0] - delta) / beyond[1])))


@pytest.mark.parametrize(
    ("z", "batches", "delta", "at_least", "sampled"),
    [
        (0.5, 1000, 1e-6, 10.9969, 4.2351),
        (1.0, 100, 1e-5, 4.0632, 0.7180),
        (0.8, 100, 1e-5, 5.6240, 1.5108),
    ],
)
def test_a_shuffled_epoch_is_claimed_above_what_an_attack_shows(
    z: float, batches: int, delta: float, at_least: float, sampled: float
) -> None:
    """Charged as Poisson sampling, the claim would be below what a simple attack achieves: it would be false."""
    noise, records = Constant(noise_multiplier=z), 100 * batches
    shown = shuffled_at_least(z, batches, delta)
    assert shown == pytest.approx(at_least, abs=5e-3)
    poisson = planned(
        Poisson(expected_batch_size=100), noise, Pld(), records=records, steps=batches, delta=delta
    )
    assert poisson == pytest.approx(sampled, abs=1e-3)
    claimed = planned(
        Shuffle(expected_batch_size=100), noise, Pld(), records=records, steps=batches, delta=delta
    )
    assert poisson < shown <= claimed == pytest.approx(gaussian_epsilon(z, delta), rel=1e-6)


def test_balls_in_bins_at_whole_orders() -> None:
    found = _removed(1.0, 100, np.array([2.0, 4.0, 8.0]))
    assert found == pytest.approx([0.0170368632, 0.0347513765, 0.0765100228], abs=1e-8)
    event = event_class()(100, dp_accounting.GaussianDpEvent(1.0))
    assert np.all(
        divergences(event, relation="zero_out", orders=(2.0, 4.0, 8.0)) >= found
    )  # adding a record may cost more


def test_the_dynamic_schedule_is_the_papers() -> None:
    shape = np.array(Dynamic(gamma=0.9).relative(5))
    sigmas = shape * math.sqrt(float((shape**-2.0).sum()) / 10)
    assert sigmas == pytest.approx(
        [0.74639035, 0.72698700, 0.70808806, 0.68968042, 0.67175131], abs=1e-7
    )
    weights = 0.9 ** np.arange(4, -1, -1)
    assert 10 * float(weights @ sigmas**2) == pytest.approx(20.3626406, abs=1e-7)
    assert 10 * float(weights.sum()) * 0.5 == pytest.approx(20.4755, abs=1e-4)


def test_the_momentum_schedule_is_the_papers() -> None:
    shape = np.array(DynamicMomentum(beta=0.9, gamma=0.95).relative(5))
    sigmas = shape * math.sqrt(float((shape**-2.0).sum()) / 10)
    assert sigmas == pytest.approx(
        [0.64508185, 0.66167449, 0.68937546, 0.73931252, 0.85154230], abs=1e-7
    )
    weights = (shape / shape[-1]) ** -4.0  # sigma_t is in proportion to q_t^(-1/4), and q_T = 1
    assert weights == pytest.approx([3.03644641, 2.743136, 2.3281, 1.76, 1], abs=1e-7)


def test_the_dynamic_schedule_on_full_batches_costs_its_mu() -> None:
    shape = Dynamic(gamma=0.9)
    scale = math.sqrt(sum(z**-2 for z in shape.relative(5)) / 10)
    noise = Dynamic(gamma=0.9, noise_multiplier=scale)
    assert planned(FullBatch(), noise, Gdp(), records=1000, steps=5) == pytest.approx(
        17.856587, abs=1e-5
    )


@pytest.mark.parametrize(
    ("accountant", "expected"), [(Pld(), 0.40674), (Rdp(), 1.01025)], ids=["pld", "rdp"]
)
def test_linear_noise(accountant: Accountant, expected: float) -> None:
    noise = Linear(noise_multiplier=2.0, end=0.5)
    found = planned(Poisson(sample_rate=0.01), noise, accountant, records=10_000, steps=100)
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("accountant", "expected"), [(Pld(), 1.71779), (Rdp(), 2.09592)], ids=["pld", "rdp"]
)
def test_noise_in_parts(accountant: Accountant, expected: float) -> None:
    noise = Piecewise(noise_multiplier=1.0, values=(2.0, 1.5, 1.0), boundaries=(0.4002, 0.8004))
    found = planned(Poisson(sample_rate=0.02), noise, accountant, records=10_000, steps=500)
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("accountant", "expected"), [(Pld(), 1.40973), (Rdp(), 1.61399)], ids=["pld", "rdp"]
)
def test_batches_in_parts(accountant: Accountant, expected: float) -> None:
    parts = schedules.Piecewise(values=(1.0, 2.0, 4.0), boundaries=(1 / 3, 2 / 3))
    sampler = Poisson(sample_rate=0.005, batch_schedule=parts)
    found = planned(sampler, Constant(noise_multiplier=1.2), accountant, records=10_000, steps=600)
    assert found == pytest.approx(expected, abs=1e-3)


def test_batches_in_parts_agree_with_dp_accounting() -> None:
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
    for rate in (0.005, 0.01, 0.02):
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(1.2))
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, 200))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.40973, abs=5e-3)
