"""The shape of each noise schedule, against its formula and against published values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dppipe.noise import (
    Constant,
    Cosine,
    Dynamic,
    DynamicMomentum,
    Exponential,
    Linear,
    NoiseSchedule,
    Piecewise,
    Step,
)


def scaled(schedule: NoiseSchedule, steps: int, *, total: float) -> list[float]:
    """Return the multipliers of a run at the size where the sum of their inverse squares is `total`."""
    relative = schedule.relative(steps)
    size = math.sqrt(math.fsum(value**-2 for value in relative) / total)
    return [size * value for value in relative]


def test_constant_noise_stays() -> None:
    assert Constant().relative(3) == [1, 1, 1]


def test_linear_noise_moves_in_a_straight_line() -> None:
    assert Linear(end=0.5).relative(5) == pytest.approx([1, 0.875, 0.75, 0.625, 0.5])


def test_exponential_noise_falls_by_one_factor() -> None:
    assert Exponential(end=0.0625).relative(5) == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625])


def test_cosine_noise_moves_along_half_a_wave() -> None:
    half = math.sqrt(0.5)
    assert Cosine(end=0.5).relative(5) == pytest.approx(
        [1, 0.75 + half / 4, 0.75, 0.75 - half / 4, 0.5]
    )


def test_step_noise_drops_at_even_distances() -> None:
    assert Step(factor=0.5, drops=2).relative(6) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert Step(factor=2, drops=1).relative(4) == [1, 1, 2, 2]
    assert Step(factor=0.01, drops=100).relative(101)[-1] > 0


def test_piecewise_noise_has_each_value_in_its_part() -> None:
    schedule = Piecewise(values=(2, 1.5, 1), boundaries=(0.4, 0.8))
    assert schedule.relative(500) == [2.0] * 200 + [1.5] * 200 + [1.0] * 100
    assert Piecewise(values=(3,), boundaries=()).relative(2) == [3, 3]


@pytest.mark.parametrize(
    ("values", "boundaries", "problem"),
    [
        ((1, 0.5), (), "one boundary fewer than the 2 values, got 0"),
        ((1, 0.5, 0.2), (0.5, 0.5), "ascending"),
        ((1, -0.5), (0.5,), "greater than 0"),
        ((1, 0.5), (1.0,), "less than 1"),
        ((), (), "at least 1 item"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    values: tuple[float, ...], boundaries: tuple[float, ...], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        Piecewise(values=values, boundaries=boundaries)


def test_dynamic_noise_has_the_published_optimum() -> None:
    """Values computed from equation 10 of Hong, Wang and Zhou (2022) with gamma = 0.9 and five steps."""
    found = scaled(Dynamic(gamma=0.9), 5, total=10)
    assert found == pytest.approx(
        [0.74639035, 0.72698700, 0.70808806, 0.68968042, 0.67175131], abs=1e-8
    )
    weights = [0.9 ** (5 - t) for t in range(1, 6)]
    objective = 10 * math.fsum(
        weight * sigma**2 for weight, sigma in zip(weights, found, strict=True)
    )
    assert objective == pytest.approx(math.fsum(map(math.sqrt, weights)) ** 2)
    assert objective < 5 * math.fsum(weights)  # what constant noise costs


def test_dynamic_momentum_noise_has_the_published_optimum() -> None:
    """The weights of Hong, Wang and Zhou (2022) with beta = 0.9, gamma = 0.95 and five steps: the noise rises."""
    found = scaled(DynamicMomentum(beta=0.9, gamma=0.95), 5, total=10)
    assert found == pytest.approx(
        [0.64508185, 0.66167449, 0.68937546, 0.73931252, 0.85154230], abs=1e-8
    )


def test_dynamic_momentum_has_a_limit_where_its_two_rates_meet() -> None:
    at_limit = DynamicMomentum(beta=0.9, gamma=0.9**2, floor=1e-9).relative(30)
    expected = [((30 * 0.81**29) / (k * 0.81 ** (k - 1))) ** 0.25 for k in range(30, 0, -1)]
    assert at_limit == pytest.approx(expected)
    assert DynamicMomentum(beta=0.9, gamma=0.81 + 1e-9, floor=1e-9).relative(30) == pytest.approx(
        expected, rel=1e-6
    )


@settings(deadline=None)
@given(st.floats(0.01, 0.999), st.floats(0.01, 0.999), st.integers(1, 300))
def test_dynamic_momentum_weights_are_those_of_the_formula(
    beta: float, gamma: float, steps: int
) -> None:
    powers = [
        math.fsum((beta**2) ** (k - 1 - j) * gamma**j for j in range(k))
        for k in range(steps, 0, -1)
    ]
    relative = DynamicMomentum(beta=beta, gamma=gamma, floor=1e-6).relative(steps)
    for found, weight in zip(relative, powers, strict=True):
        if powers[0] > 1e-290:
            assert found == pytest.approx(max(1e-6, (powers[0] / weight) ** 0.25), rel=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [
        Dynamic(gamma=0.5),
        DynamicMomentum(beta=0.5, gamma=0.5),
        DynamicMomentum(beta=0.99, gamma=0.01),
    ],
)
def test_long_runs_keep_the_least_noise(schedule: NoiseSchedule) -> None:
    relative = schedule.relative(200_000)
    assert min(relative) >= 0.1
    assert max(relative) <= 100
