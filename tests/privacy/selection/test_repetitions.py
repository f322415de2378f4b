"""The number of runs: its distribution against mpmath, and that its numbers are rounded up."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.selection.repetitions import Repetitions

MEANS = st.floats(1.0001, 1e6)
SHAPES = st.one_of(st.just(0.0), st.floats(1e-3, 20))


def exact_mean(gamma: float, shape: float) -> mpmath.mpf:
    g = mpmath.mpf(gamma)
    if shape == 0:
        return (1 / g - 1) / mpmath.log(1 / g)
    return mpmath.mpf(shape) * (1 - g) / (g * (1 - g ** mpmath.mpf(shape)))


@settings(deadline=None, max_examples=200)
@given(MEANS, SHAPES)
def test_mean_and_logarithm_of_that_very_gamma_are_rounded_up(mean: float, shape: float) -> None:
    runs = Repetitions(mean=mean, shape=shape)
    with mpmath.workdps(60):
        exact = exact_mean(runs.gamma, shape)
        assert exact <= runs.expected <= exact * (1 + mpmath.mpf("1e-13"))
        log_inverse = -mpmath.log(mpmath.mpf(runs.gamma))
        assert log_inverse <= runs.log_inverse_gamma
    assert runs.expected == pytest.approx(mean, rel=1e-9)


@settings(deadline=None, max_examples=200)
@given(st.floats(1.01, 1e4), SHAPES, st.floats(0, 1), st.floats(0, 1))
def test_growth_of_the_derivative_is_rounded_up(
    mean: float, shape: float, one: float, other: float
) -> None:
    runs = Repetitions(mean=mean, shape=shape)
    x, y = sorted((one, other))
    found = float(runs.log_growth(np.array([x]), np.array([y]))[0])
    with mpmath.workdps(60):
        rest = 1 - mpmath.mpf(runs.gamma)
        above = 1 - rest * mpmath.mpf(x)
        below = 1 - rest * mpmath.mpf(y)
        exact = (1 + mpmath.mpf(shape)) * mpmath.log(above / below)
    assert exact <= found <= exact * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
def test_probabilities_quantiles_and_the_mean_belong_together(shape: float) -> None:
    runs = Repetitions(mean=6.0, shape=shape)
    chances = runs.probabilities(4000)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert float(chances @ np.arange(4001)) == pytest.approx(6, abs=1e-9)
    reached = np.cumsum(chances)
    for share in (0.5, 0.9, 0.99):
        assert runs.quantile(share) == int(np.searchsorted(reached, share))
    assert (chances[0] > 0) == runs.is_poisson


def test_one_run_for_certain() -> None:
    once = Repetitions(mean=1.0, shape=0.0)
    assert (once.gamma, once.expected, once.quantile(0.99)) == (1.0, 1.0, 1)
    assert list(once.probabilities(3)) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("mean", "shape"),
    [(0.9, 0.0), (math.nan, 0.0), (math.inf, 1.0), (2.0, -0.1), (2.0, math.nan)],
)
def test_other_numbers_are_refused(mean: float, shape: float) -> None:
    with pytest.raises(PrivacyRefusal, match="repetitions"):
        Repetitions(mean=mean, shape=shape)
