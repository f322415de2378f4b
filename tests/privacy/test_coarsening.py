"""Rounding a long schedule onto a few values keeps it an upper bound."""

from __future__ import annotations

from collections.abc import Callable

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.accountants import Rdp
from dppipe.privacy.events.balls_in_bins import event_class
from dppipe.privacy.events.coarsening import coarsened


def poisson(rate: float, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))


@settings(max_examples=50, deadline=None)
@given(
    settings_=st.lists(
        st.tuples(st.floats(0.001, 0.5), st.floats(0.5, 20.0)), min_size=1, max_size=60, unique=True
    ),
    distinct=st.integers(1, 20),
)
def test_noise_only_goes_down_and_rates_only_up(
    settings_: list[tuple[float, float]], distinct: int
) -> None:
    for rate, z in settings_:
        stage = {poisson(q, s): 1 for q, s in settings_}
        (one, rest), factor = coarsened([{poisson(rate, z): 5}, stage], distinct=distinct)
        (event,) = one
        assert event.sampling_probability >= rate
        assert event.event.noise_multiplier <= z
        assert z / event.event.noise_multiplier <= 1 + factor + 1e-9
        assert sum(rest.values()) == len(settings_)
        assert len(set(one) | set(rest)) <= distinct


def test_a_short_schedule_stays_as_it_is() -> None:
    stage = {poisson(0.01, z): 2 for z in (1.0, 2.0, 3.0)}
    assert coarsened([stage], distinct=3) == ([stage], 0.0)


Truncated = dp_accounting.TruncatedSubsampledGaussianDpEvent


@pytest.mark.parametrize(
    "form",
    [
        lambda size, noise: dp_accounting.SampledWithoutReplacementDpEvent(
            100, size, dp_accounting.GaussianDpEvent(noise)
        ),
        lambda size, noise: dp_accounting.SampledWithoutReplacementDpEvent(
            99 + size, 9, dp_accounting.GaussianDpEvent(noise)
        ),
        lambda size, noise: dp_accounting.SampledWithReplacementDpEvent(
            100, size, dp_accounting.GaussianDpEvent(noise)
        ),
        lambda size, noise: event_class()(size, dp_accounting.GaussianDpEvent(noise)),
        lambda size, noise: Truncated(100, 0.1, 10 + size, noise),
        lambda size, noise: Truncated(100 + size, 0.1, 20, noise),
        lambda size, noise: Truncated(100, 0.01 * size, 20, noise),
        lambda size, noise: dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
            noise, (0.0, float(size)), (0.5, 0.5)
        ),
    ],
)
def test_what_is_not_comparable_is_left_apart(
    form: Callable[[int, float], dp_accounting.DpEvent],
) -> None:
    sizes = {form(size, 2 + size / 8): size for size in range(1, 9)}
    (rounded,), factor = coarsened([sizes], distinct=3)
    assert rounded == sizes
    assert factor == 0


def test_the_rounded_schedule_costs_at_least_the_given_one() -> None:
    multipliers = [1 + t / 40 for t in range(40)]
    exact = [
        Rdp()
        .compose([(poisson(0.02, z), 1)], relation="zero_out")
        .curve.parameters()["divergences"]
        for z in multipliers
    ]
    (counts,), _ = coarsened([{poisson(0.02, z): 1 for z in multipliers}], distinct=5)
    rounded = (
        Rdp().compose(list(counts.items()), relation="zero_out").curve.parameters()["divergences"]
    )
    assert all(total >= sum(each) for total, *each in zip(rounded, *exact, strict=True))
    assert rounded[10] == pytest.approx(sum(each[10] for each in exact), rel=0.3)


def test_one_release_without_sampling_does_not_widen_the_bins_of_sampled_ones() -> None:
    stage = {poisson(0.01 + t / 10_000, 1 + t / 100): 1 for t in range(100)}
    (alone,), factor = coarsened([stage], distinct=20)
    (joined,), with_another = coarsened(
        [stage | {dp_accounting.GaussianDpEvent(50.0): 1}], distinct=21
    )
    assert with_another <= 2 * factor  # bins over all noise together would be ten times as wide
    assert sum(joined.values()) == sum(alone.values()) + 1


def test_different_noise_on_equal_samples_is_never_taken_for_the_same() -> None:
    noises = (dp_accounting.GaussianDpEvent, dp_accounting.LaplaceDpEvent)
    stage = {}
    for step in range(40):
        for noise in noises:
            stage[dp_accounting.PoissonSampledDpEvent(0.1, noise(1 + step / 40))] = 1
    (rounded,), _ = coarsened([stage], distinct=6)
    assert len(rounded) <= 6
    for noise in noises:
        counts = [n for event, n in rounded.items() if isinstance(event.event, noise)]
        assert sum(counts) == 40


def test_an_event_that_holds_no_noise_keeps_its_rate_and_all_else() -> None:
    known = [
        dp_accounting.PoissonSampledDpEvent(0.1 + step / 100, dp_accounting.ZCDpEvent(0.1, 0.0))
        for step in range(8)
    ]
    (rounded,), factor = coarsened([dict.fromkeys(known, 1)], distinct=2)
    assert list(rounded) == known
    assert factor == 0
