"""What the samplers charge, against independently computed epsilons, and what they refuse."""

from __future__ import annotations

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, pld, rdp
from secret_streams import secret_stream

from dppipe.errors import PrivacyRefusal
from dppipe.sampling import Poisson, TruncatedPoisson, WithoutReplacement, WithReplacement
from dppipe.sampling.base import Sampler


def pld_epsilon(event: dp_accounting.DpEvent, *, steps: int, delta: float) -> float:
    accountant = pld.PLDAccountant(
        NeighboringRelation.REPLACE_SPECIAL, value_discretization_interval=1e-3
    )
    return float(accountant.compose(event, steps).get_epsilon(delta))


@pytest.mark.parametrize(("most", "epsilon"), [(130, 3.68407), (150, 1.83047), (170, 1.82824)])
def test_truncation_costs_what_the_reference_says(most: int, epsilon: float) -> None:
    sampler = TruncatedPoisson(expected_batch_size=100, max_batch_size=most)
    event = sampler.event(dp_accounting.GaussianDpEvent(1.0), rate=sampler.rate(10_000))
    assert pld_epsilon(event, steps=1000, delta=1e-5) == pytest.approx(epsilon, abs=5e-3)


def test_the_automatic_truncation_is_nearly_free() -> None:
    truncated, plain = TruncatedPoisson(expected_batch_size=100), Poisson(expected_batch_size=100)
    assert truncated.largest() == 170
    costs = [
        pld_epsilon(
            sampler.event(dp_accounting.GaussianDpEvent(1.0), rate=0.01), steps=1000, delta=1e-5
        )
        for sampler in (truncated, plain)
    ]
    assert costs[1] <= costs[0] <= costs[1] + 1e-3


def test_truncation_keeps_every_batch_within_its_size() -> None:
    sampler, source = (
        TruncatedPoisson(expected_batch_size=50, max_batch_size=50),
        secret_stream("sampler"),
    )
    sizes = [len(sampler.draw(1000, rate=0.05, generator=source)) for _ in range(300)]
    assert max(sizes) == 50
    assert min(sizes) < 50


def test_truncation_is_charged_for_gaussian_noise_only() -> None:
    with pytest.raises(PrivacyRefusal, match="expected Gaussian noise"):
        TruncatedPoisson(expected_batch_size=5).event(dp_accounting.LaplaceDpEvent(1.0), rate=0.1)


def test_a_fixed_size_costs_what_the_reference_says() -> None:
    """RDP reads the multiplier without doubling the sensitivity, so half of it is given here."""
    sampler = WithoutReplacement(expected_batch_size=100)
    event = sampler.event(dp_accounting.GaussianDpEvent(2.0 / 2), rate=sampler.rate(10_000))
    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE).compose(
        event, 100
    )
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.48253, abs=1e-4)


def test_a_poisson_rate_of_one_is_no_sampling() -> None:
    mechanism = dp_accounting.GaussianDpEvent(1.0)
    assert Poisson(sample_rate=1).event(mechanism, rate=1.0) is mechanism


@pytest.mark.parametrize(
    "sampler",
    [
        TruncatedPoisson(expected_batch_size=5),
        WithoutReplacement(expected_batch_size=5),
        WithReplacement(expected_batch_size=5),
    ],
)
def test_samplers_that_show_the_number_of_records_refuse_to_keep_it_secret(
    sampler: Sampler,
) -> None:
    with pytest.raises(PrivacyRefusal, match="add_remove"):
        sampler.rate(None)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to the 3 records"):
        WithoutReplacement(expected_batch_size=5).draw(
            3, rate=1.0, generator=secret_stream("sampler")
        )
