"""How the textbook theorems share out delta: what the steps use and what the theorem sets aside are delta together."""

from __future__ import annotations

import math

import dp_accounting
import pytest

from dppipe.privacy.textbook.curve import _SHARES, TextbookCurve
from dppipe.privacy.textbook.one_step import step_epsilon

STEPS, DELTA = 40, 1e-5
STEP = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(3.0))


def each(delta: float) -> float:
    return step_epsilon(STEP, delta=delta, relation="zero_out")


def test_what_the_theorem_sets_aside_is_taken_from_the_deltas_of_the_steps() -> None:
    """The heterogeneous theorem worked out by itself at every share (Kairouz, Oh and Viswanath 2015, theorem 3.5)."""
    basic, *others = TextbookCurve(((STEP, STEPS),), "zero_out", advanced=True)._bounds(DELTA)
    assert basic == pytest.approx(STEPS * each(DELTA / STEPS), rel=1e-12)
    for share, claimed in zip(_SHARES, others[::2], strict=True):
        epsilon = each((1 - share) * DELTA / STEPS)
        mean = STEPS * epsilon * (math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)
        assert claimed == pytest.approx(
            math.sqrt(2 * STEPS * math.log(1 / (share * DELTA))) * epsilon + mean, rel=1e-12
        )


def test_pure_steps_leave_all_of_delta_to_the_theorem() -> None:
    laplace = dp_accounting.LaplaceDpEvent(20.0)
    basic, claimed, optimal = TextbookCurve(((laplace, STEPS),), "zero_out", advanced=True)._bounds(
        DELTA
    )
    assert basic == pytest.approx(STEPS / 20)
    assert claimed == pytest.approx(
        math.sqrt(2 * STEPS * math.log(1 / DELTA)) / 20 + STEPS / 20 * math.tanh(1 / 40), rel=1e-12
    )
    assert optimal < claimed
