"""Is the curve form a bound? Selections are computed exactly, for orders made to break it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special

from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.selection.costs import SelectionCurve
from dppipe.privacy.selection.repetitions import Repetitions

DELTA = 1e-5


def generating_function(runs: Repetitions, x: NDArray[np.float64]) -> NDArray[np.float64]:
    if runs.is_poisson:
        return np.exp(runs.mean * (x - 1))
    if runs.shape == 0:
        return np.asarray(np.log1p(-(1 - runs.gamma) * x) / math.log(runs.gamma))
    whole = runs.gamma**-runs.shape - 1
    return np.asarray(((1 - (1 - runs.gamma) * x) ** -runs.shape - 1) / whole)


def law_of_best(one: NDArray[np.float64], runs: Repetitions) -> NDArray[np.float64]:
    """Return the law of the best of K outputs, the best last; no output first."""
    reached = np.concatenate([[0.0], np.minimum(np.cumsum(one), 1.0)])
    return np.diff(generating_function(runs, reached))


def exact_epsilon(p: NDArray[np.float64], q: NDArray[np.float64], runs: Repetitions) -> float:
    best = law_of_best(p, runs)
    other = law_of_best(q, runs)

    def excess(epsilon: float) -> float:
        return float(np.maximum(best - math.exp(epsilon) * other, 0.0).sum()) - DELTA

    return float(optimize.brentq(excess, 0.0, 60.0)) if excess(0.0) > 0 else 0.0


def orders(loss: NDArray[np.float64], mu: float, *, fine: int) -> Iterator[NDArray[np.int64]]:
    """Yield orders "t < loss < T, then loss > T, then the rest", and both ends first."""
    yield np.argsort(loss)
    yield np.argsort(np.abs(loss))
    for low in np.linspace(-2 * mu, 3 * mu, fine):
        for high in np.linspace(low + 0.05, 5 * mu + 0.1, (fine + 1) // 2):
            middle = (loss > low) & (loss <= high)
            top = loss > high
            rest = ~middle & ~top
            parts = [np.flatnonzero(part) for part in (middle, top, rest)]
            yield np.concatenate(parts)


def worst_found(mu: float, runs: Repetitions, *, cells: int, fine: int) -> float:
    edges = np.concatenate([[-np.inf], np.linspace(-7, 8, cells - 1), [np.inf]])
    q = np.diff(special.ndtr(edges))
    p = np.diff(special.ndtr(edges - mu))
    kept = (q > 0) & (p > 0)
    p, q = p[kept], q[kept]
    worst = 0.0
    for order in orders(np.log(p / q), mu, fine=fine):
        for one in (order, order[::-1]):
            worst = max(worst, exact_epsilon(p[one], q[one], runs))
            worst = max(worst, exact_epsilon(q[one], p[one], runs))
    return worst


@pytest.mark.parametrize(("shape", "mean"), [(0.0, 10.0), (1.0, 100.0), (math.inf, 10.0)])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_no_order_of_outputs_costs_more_than_the_curve_form(
    mu: float, shape: float, mean: float
) -> None:
    runs = Repetitions(mean=mean, shape=shape)
    bound = SelectionCurve(GaussianCurve(mu), runs).epsilon(DELTA)
    worst = worst_found(mu, runs, cells=300, fine=7)
    assert worst <= bound
    if shape < math.inf:
        assert worst >= 0.85 * bound  # the search is no formality


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "shape", "mean", "found", "bound"),
    [
        (0.3, 0, 10, 1.633, 1.705),
        (0.3, 1, 10, 1.728, 1.831),
        (0.3, 1, 100, 2.304, 2.465),
        (0.6, 0, 10, 3.457, 3.573),
        (0.6, 1, 10, 3.653, 3.822),
        (0.6, 1, 100, 4.811, 5.072),
        (1.0, 0, 10, 6.065, 6.213),
        (1.0, 1, 100, 8.333, 8.656),
        (1.5, 0, 10, 9.545, 9.704),
        (1.5, 1, 10, 10.052, 10.280),
        (1.5, 1, 100, 12.889, 13.228),
    ],
)
def test_golden_worst_orders(
    mu: float, shape: float, mean: float, found: float, bound: float
) -> None:
    runs = Repetitions(mean=mean, shape=shape)
    curve = SelectionCurve(GaussianCurve(mu), runs)
    assert curve.epsilon(DELTA) == pytest.approx(bound, abs=1e-3)
    worst = worst_found(mu, runs, cells=800, fine=25)
    assert found - 0.02 <= worst <= curve.epsilon(DELTA)
