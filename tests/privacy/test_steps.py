"""Sequences of events are counted, cut and folded without changing what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.events.sequences import (
    between,
    cumulative,
    first,
    gaussian_precision,
    merge,
    total,
)

A, B = dp_accounting.GaussianDpEvent(1.0), dp_accounting.GaussianDpEvent(2.0)
STEPS = st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 5)), max_size=8)


@given(steps=STEPS, data=st.data())
def test_cuts_fit_together(
    steps: list[tuple[dp_accounting.DpEvent, int]], data: st.DataObject
) -> None:
    low = data.draw(st.integers(0, total(steps)))
    high = data.draw(st.integers(low, total(steps)))
    assert total(first(steps, high)) == high
    assert total(between(steps, low, high)) == high - low
    *_, together = cumulative([merge(first(steps, low)), merge(between(steps, low, high))])
    assert together == merge(first(steps, high))


def test_more_steps_than_there_are_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="at least 4"):
        first([(A, 3)], 4)


def test_compositions_are_taken_apart_and_nothing_is_dropped() -> None:
    nested = dp_accounting.SelfComposedDpEvent(
        dp_accounting.ComposedDpEvent([A, B, A, dp_accounting.NoOpDpEvent()]), 3
    )
    assert merge([(nested, 2), (B, 1)]) == {A: 12, B: 7}


@pytest.mark.parametrize("wrap", [lambda event: dp_accounting.PoissonSampledDpEvent(0.1, event),
                                  lambda event: dp_accounting.SampledWithoutReplacementDpEvent(100, 10, event)])  # fmt: skip
def test_gaussians_on_one_sample_are_folded(wrap: object) -> None:
    sampled = wrap(dp_accounting.ComposedDpEvent([A, dp_accounting.SelfComposedDpEvent(B, 4)]))  # type: ignore[operator]
    (event,) = merge([(sampled, 1)])
    assert event.event.noise_multiplier == pytest.approx(2**-0.5)


def test_sampling_everything_is_no_sampling() -> None:
    everything = dp_accounting.SampledWithoutReplacementDpEvent(10, 10, A)
    assert merge([(dp_accounting.PoissonSampledDpEvent(1.0, A), 1), (everything, 1), (A, 1)]) == {
        A: 3
    }


Poisson, Truncated = (
    dp_accounting.PoissonSampledDpEvent,
    dp_accounting.TruncatedSubsampledGaussianDpEvent,
)
Subset, Redrawn = (
    dp_accounting.SampledWithoutReplacementDpEvent,
    dp_accounting.SampledWithReplacementDpEvent,
)


@pytest.mark.parametrize("z", [1, np.float32(1.0), np.float64(1.0)])
@pytest.mark.parametrize(
    "form",
    [
        dp_accounting.GaussianDpEvent,
        lambda z: Poisson(0.1, dp_accounting.GaussianDpEvent(z)),
        lambda z: Subset(10, 2, dp_accounting.GaussianDpEvent(z)),
        lambda z: Redrawn(10, 2, dp_accounting.GaussianDpEvent(z)),
        lambda z: Truncated(100, 0.1, 20, z),
    ],
)
def test_noise_multipliers_come_out_as_plain_floats(form: Callable[[Any], Any], z: float) -> None:
    """An integer or a float32 equals a float, but dp_accounting asks for the type."""
    (event,) = merge([(form(z), 1)])
    assert type(getattr(event, "event", event).noise_multiplier) is float


@pytest.mark.parametrize(
    "event",
    [
        *(dp_accounting.GaussianDpEvent(z) for z in (math.nan, math.inf, -1.0, True)),
        *(Poisson(0.1, dp_accounting.GaussianDpEvent(z)) for z in (math.nan, math.inf, -1.0)),
        *(Poisson(rate, A) for rate in (math.nan, -0.1, 1.5, True)),
        *(Truncated(100, rate, 20, 1.0) for rate in (math.nan, -0.1, 1.5)),
        *(Truncated(100, 0.1, 20, z) for z in (math.nan, math.inf, -1.0)),
        *(
            Truncated(records, 0.1, most, 1.0)
            for records, most in ((0, 20), (100, -1), (100.5, 20), (100, 0.5))
        ),
        *(form(10, size, A) for form in (Subset, Redrawn) for size in (-1, 0.5, math.nan)),
        Subset(10, 11, A),
    ],
)
def test_events_with_numbers_that_are_none_are_refused(event: dp_accounting.DpEvent) -> None:
    with pytest.raises(PrivacyRefusal):
        merge([(event, 1)])


def test_precision_of_unsampled_gaussians() -> None:
    assert gaussian_precision({A: 1, B: 4}, relation="zero_out") == pytest.approx(2)
    assert gaussian_precision({A: 1, B: 4}, relation="replace_one") == pytest.approx(8)
    assert gaussian_precision({dp_accounting.LaplaceDpEvent(1.0): 1}, relation="zero_out") is None


@pytest.mark.parametrize(
    "event",
    [
        A,
        dp_accounting.LaplaceDpEvent(2.0),
        dp_accounting.PoissonSampledDpEvent(0.1, A),
        dp_accounting.SampledWithReplacementDpEvent(10, 2, A),
        dp_accounting.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
        dp_accounting.SelfComposedDpEvent(A, 3),
        dp_accounting.ComposedDpEvent((A, B)),
        dp_accounting.dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)),
    ],
)
def test_events_go_to_plain_data_and_back(event: dp_accounting.DpEvent) -> None:
    assert event_from_data(event_to_data(event)) == event


@pytest.mark.parametrize(
    "data",
    [None, {}, {"type": "GaussianDpEvent"}, {"type": "GaussianDpEvent", "noise_multiplier": 1.0, "extra": 1},
     {"type": "ComposedDpEvent", "events": 3}, {"type": "NonPrivateDpEvent"}, {"type": ["x"]},
     {"type": "SelfComposedDpEvent", "count": 1.5, "event": {"type": "NoOpDpEvent"}}],
)  # fmt: skip
def test_data_that_is_no_event_is_refused(data: object) -> None:
    with pytest.raises(PrivacyRefusal):
        event_from_data(data)
