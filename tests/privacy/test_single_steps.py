"""One step as an (epsilon, delta) mechanism, against what an attack on it shows and against the theorem worked out by itself."""

from __future__ import annotations

import dp_accounting
import mpmath
import numpy as np
import pytest
from scipy import stats

from dppipe.privacy.accountants import Advanced, Basic, Pld
from dppipe.privacy.accountants.base import Accountant
from dppipe.privacy.textbook.one_step import step_epsilon

CASES = [
    (100, 20, 2.0, 1e-5),
    (1000, 100, 4.0, 1e-6),
    (50, 50, 5.0, 1e-5),
    (10_000, 100, 1.0, 1e-5),
    (40, 1, 1.0, 1e-4),
]
"""Records, draws, noise multiplier and delta."""


def drawn_again(records: int, draws: int, z: float) -> dp_accounting.DpEvent:
    return dp_accounting.SampledWithReplacementDpEvent(
        records, draws, dp_accounting.GaussianDpEvent(z)
    )


def attacked_delta(epsilon: float, records: int, draws: int, z: float) -> float:
    """Return the exact delta of a step in which one record points against all others, or with them.

    A record that is drawn k times then moves the sum by 2k: P is the mixture of N(2k, z^2), and Q is N(0, z^2).
    """
    times = np.arange(draws + 1)
    weights = stats.binom.pmf(times, draws, 1 / records)
    x = np.linspace(-10 * z, 2 * min(draws, 40) + 10 * z, 400_001)
    mixture = sum(
        w * stats.norm.pdf(x, 2 * k, z) for k, w in zip(times[:41], weights[:41], strict=True)
    )
    whole = stats.norm.pdf(x, 0, z)
    ways = (mixture - np.exp(epsilon) * whole, whole - np.exp(epsilon) * mixture)
    return max(float(np.maximum(way, 0).sum() * (x[1] - x[0])) for way in ways)


@pytest.mark.parametrize(("records", "draws", "z", "delta"), CASES)
def test_no_attack_shows_more_than_sampling_with_replacement_is_charged(
    records: int, draws: int, z: float, delta: float
) -> None:
    claimed = step_epsilon(drawn_again(records, draws, z), delta=delta, relation="replace_one")
    assert attacked_delta(claimed, records, draws, z) <= delta * (1 + 1e-6)


def test_one_draw_is_charged_exactly() -> None:
    claimed = step_epsilon(drawn_again(40, 1, 1.0), delta=1e-4, relation="replace_one")
    assert attacked_delta(claimed, 40, 1, 1.0) == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize(("records", "draws", "z", "delta"), CASES)
def test_sampling_with_replacement_is_the_theorems(
    records: int, draws: int, z: float, delta: float
) -> None:
    """Balle, Barthe and Gaboardi (2018), theorem 10 and the group profile of k copies, in forty digits."""
    with mpmath.workdps(40):
        claimed = mpmath.mpf(
            step_epsilon(drawn_again(records, draws, z), delta=delta, relation="replace_one")
        )
        eta = 1 - (1 - mpmath.mpf(1) / records) ** draws
        inner = mpmath.log(1 + (mpmath.exp(claimed) - 1) / eta)
        found = mpmath.mpf(0)
        for k in range(1, draws + 1):
            s = mpmath.mpf(z) / (2 * k)
            tails = mpmath.ncdf(1 / (2 * s) - inner * s) - mpmath.exp(inner) * mpmath.ncdf(
                -1 / (2 * s) - inner * s
            )
            found += (
                mpmath.binomial(draws, k)
                * mpmath.mpf(records) ** -k
                * (1 - mpmath.mpf(1) / records) ** (draws - k)
                * tails
            )
        assert found <= delta
        assert float(found) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("accountant", [Basic(), Advanced()])
def test_a_pure_step_uses_no_delta_that_nobody_counts(accountant: Accountant) -> None:
    """At a rate below delta one step costs nothing at delta; but then a million of them would spend a million deltas."""
    step = dp_accounting.PoissonSampledDpEvent(1e-6, dp_accounting.LaplaceDpEvent(0.1))
    each = step_epsilon(step, delta=1e-5, relation="zero_out")
    assert each == pytest.approx(np.log1p(1e-6 * np.expm1(10)), rel=1e-12)
    truth = Pld().compose([(step, 100_000)], relation="zero_out").epsilon(1e-5)
    assert accountant.compose([(step, 100_000)], relation="zero_out").epsilon(1e-5) >= truth > 0
