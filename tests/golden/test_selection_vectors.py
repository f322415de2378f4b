"""The best of several runs, by the curve of one run: frozen values, which are never undercut."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest

from dppipe.privacy.accountants import Pld
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.selection.chords import Chords, read_chords
from dppipe.privacy.selection.costs import SelectionCurve, selection_shift
from dppipe.privacy.selection.repetitions import Repetitions
from dppipe.privacy.selection.scores import free_noise_std

DELTA = 1e-5
KINDS = ((0.0, 10.0), (1.0, 10.0), (1.0, 50.0), (math.inf, 10.0))
SETTINGS = {
    "A": (256 / 1438, 2.8332, 113),
    "B": (0.01, 1.0, 1000),
    "C": (0.01, 2.0, 1000),
}


def selection(setting: str, shape: float, mean: float) -> dp_accounting.DpEvent:
    rate, z, steps = SETTINGS[setting]
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))
    run = dp_accounting.SelfComposedDpEvent(step, steps)
    return dp_accounting.dp_event.RepeatAndSelectDpEvent(run, mean, shape)


def cost(event: dp_accounting.DpEvent) -> float:
    found = Pld().compose([(event, 1)], relation="zero_out")
    assert found.certified
    return found.epsilon(DELTA)


def close_above(expected: float, found: float, *, margin: float = 1e-3) -> bool:
    """Whether a bound is that of the table, which has four digits, and not below it."""
    return expected - 5.1e-5 <= found <= expected + margin


@pytest.mark.parametrize(
    ("shape", "mean", "once", "median", "most"),
    [
        (0, 10, 0.269183, 4, 81),
        (1, 10, 0.1, 7, 44),
        (0, 50, 0.176472, 10, 536),
        (1, 50, 0.02, 35, 228),
    ],
)
def test_the_number_of_runs(shape: float, mean: float, once: float, median: int, most: int) -> None:
    runs = Repetitions(mean=mean, shape=shape)
    assert runs.probabilities(1)[1] == pytest.approx(once, abs=1e-6)
    assert (runs.quantile(0.5), runs.quantile(0.99)) == (median, most)


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (5.0, (1.1099, 1.1941, 1.4964)),
        (2.0, (2.9376, 3.1463, 3.8914)),
        (1.0, (6.2131, 6.6175, 8.0672, 8.7158)),
    ],
)
def test_the_best_of_several_gaussian_releases(z: float, expected: tuple[float, ...]) -> None:
    for (shape, mean), epsilon in zip(KINDS, expected, strict=False):
        run = dp_accounting.GaussianDpEvent(z)
        event = dp_accounting.dp_event.RepeatAndSelectDpEvent(run, mean, shape)
        assert close_above(epsilon, cost(event))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("A", (4.3341, 4.6122, 5.6726, 6.0535)),
        ("B", (2.7045, 2.8710, 3.5769, 3.7347)),
        ("C", (0.9558, 1.0262, 1.2900, 1.3909)),
    ],
)
def test_the_best_of_several_runs_of_dp_sgd(setting: str, expected: tuple[float, ...]) -> None:
    for (shape, mean), epsilon in zip(KINDS, expected, strict=True):
        assert close_above(epsilon, cost(selection(setting, shape, mean)))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (0.0, (3.4576, 3.9805, 4.6613, 5.0629, 5.3480)),
        (1.0, (3.4925, 4.1357, 5.0774, 5.6726, 6.1070)),
    ],
)
def test_cost_by_the_mean_number_of_runs(shape: float, expected: tuple[float, ...]) -> None:
    for mean, epsilon in zip((2.0, 5.0, 20.0, 50.0, 100.0), expected, strict=True):
        assert close_above(epsilon, cost(selection("A", shape, mean)))


@pytest.mark.parametrize(
    ("shape", "mean", "shift"),
    [(0, 10, 1.32655), (0.5, 10, 1.55117), (1, 10, 1.73097), (1, 50, 2.85302)],
)
def test_what_choosing_adds_to_one_gaussian_release(
    shape: float, mean: float, shift: float
) -> None:
    best = SelectionCurve(GaussianCurve(1.0), Repetitions(mean=mean, shape=shape))
    assert close_above(shift, best.shift, margin=2e-4)


@pytest.mark.parametrize(
    ("shape", "mean", "epsilon"), [(0, 10, 1.939236), (1, 10, 2.591344), (1, 1000, 2.995306)]
)
def test_pure_runs_cost_slightly_less_than_2_plus_shape(
    shape: float, mean: float, epsilon: float
) -> None:
    one = Chords(np.array([1.0]), np.array([0.0]))
    repetitions = Repetitions(mean=mean, shape=shape)
    found = 1 + selection_shift(one, repetitions)
    assert found == pytest.approx(epsilon, abs=1e-6)
    gamma = repetitions.gamma
    likely = math.e / (1 + math.e)
    above = gamma + (1 - gamma) * likely
    below = gamma + (1 - gamma) * (1 - likely)
    assert found >= 1 + (1 + shape) * math.log(above / below)
    assert found <= 2 + shape


def test_the_least_noise_on_a_score_that_costs_nothing() -> None:
    rate, z, steps = SETTINGS["A"]
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z))
    run = Pld().compose([(step, steps)], relation="zero_out").curve
    found = free_noise_std(read_chords(run))
    assert found == pytest.approx(1.4737, abs=2e-4)
