"""What every noise schedule keeps, over all that the registry finds, plugins included."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.noise.base import NoiseSchedule
from dppipe.spec.kinds.registry import Registry

KINDS = Registry().kinds("noise")


def make(kind: str, **options: object) -> NoiseSchedule:
    made = Registry().load("noise", kind).from_data(options)
    assert isinstance(made, NoiseSchedule)
    return made


@pytest.fixture(params=KINDS)
def schedule(request: pytest.FixtureRequest) -> NoiseSchedule:
    return make(request.param)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(steps=st.integers(0, 3000) | st.sampled_from([1, 2, 3, 100_000]))
def test_each_step_has_a_finite_positive_multiplier(kind: str, steps: int) -> None:
    multipliers = make(kind).relative(steps)
    assert len(multipliers) == steps
    assert all(type(multiplier) is float for multiplier in multipliers)
    assert all(math.isfinite(multiplier) and multiplier > 0 for multiplier in multipliers)


def test_the_first_step_has_the_stated_multiplier(schedule: NoiseSchedule) -> None:
    assert schedule.relative(100)[0] == pytest.approx(1)


def test_a_single_step_is_the_first_one(schedule: NoiseSchedule) -> None:
    assert schedule.relative(1) == pytest.approx([schedule.relative(2)[0]])


def test_a_schedule_is_the_same_every_time(schedule: NoiseSchedule) -> None:
    assert schedule.relative(57) == make(schedule.kind).relative(57)


def test_a_schedule_that_says_it_is_constant_is(schedule: NoiseSchedule) -> None:
    assert not schedule.constant or len(set(schedule.relative(50))) == 1


@settings(deadline=None)
@given(history=st.lists(st.floats(-1e6, 1e6), max_size=60))
def test_an_adaptive_schedule_follows_released_values_to_finite_positive_noise(
    history: list[float],
) -> None:
    for kind in KINDS:
        schedule = make(kind)
        if schedule.adaptive:
            multiplier = schedule.next_multiplier(history)
            assert math.isfinite(multiplier)
            assert multiplier > 0


def test_the_event_names_the_multiplier(schedule: NoiseSchedule) -> None:
    for multiplier in schedule.relative(5):
        noise_multiplier = schedule.event(multiplier).noise_multiplier
        assert noise_multiplier == multiplier
        assert type(noise_multiplier) is float


@pytest.mark.parametrize("noise_multiplier", [0.0, -1.0, math.nan, math.inf])
def test_noise_that_protects_nothing_is_refused(
    schedule: NoiseSchedule, noise_multiplier: float
) -> None:
    with pytest.raises(ValueError, match="noise multiplier"):
        schedule.event(noise_multiplier)


def test_options_survive_being_written_and_read(schedule: NoiseSchedule) -> None:
    written = json.loads(json.dumps(schedule.to_data()))
    assert written.pop("kind") == schedule.kind
    assert type(schedule).from_data(written) == schedule


def test_every_option_says_what_it_is(schedule: NoiseSchedule) -> None:
    assert all(field.description for field in type(schedule).model_fields.values())
