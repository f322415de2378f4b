"""Epsilon along a run: a bound at every step, close to PLD recomputed at that step."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.events.sequences import Steps, first, merge
from dppipe.privacy.failures import with_failure
from dppipe.privacy.pld import compose
from dppipe.privacy.preludes import with_prelude

DELTA = 1e-5


def _step(rate: float, noise_multiplier: float) -> PoissonSampledDpEvent:
    return PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier))


def _epsilon_after(points: Sequence[tuple[int, float]], step: int) -> float:
    return points[bisect_left(points, (step, 0.0))][1]


def _check_close(steps: Steps, points: Sequence[tuple[int, float]], at: Sequence[int]) -> None:
    for step in at:
        (exact,) = compose([merge(first(steps, step))], relation="zero_out", distinct=None)
        known = exact.epsilon(DELTA)
        spent = _epsilon_after(points, step)
        assert known <= spent <= known + max(0.005 * known, 0.001), step


CASES = {
    "quickstart": [(_step(256 / 1438, 2.5), 113)],
    "rare draws": [(_step(0.004, 1.0), 1000)],
    "tiny losses": [(_step(0.01, 20.0), 2000)],
    "two stretches": [(_step(0.02, 1.0), 40), (_step(0.05, 1.5), 60)],
    "falling noise": [(_step(0.02, 5 * 0.5 ** (k / 20)), 1) for k in range(20)],
    "few steps": [(_step(0.3, 2.0), 3)],
}


@pytest.mark.parametrize("name", CASES)
def test_epsilon_along_a_run_bounds_pld_at_each_step_closely(name: str) -> None:
    steps = CASES[name]
    last = sum(count for _, count in steps)
    points = Pld().spending(steps, [last], delta=DELTA, relation="zero_out")
    _check_close(steps, points, sorted({1, 2, last // 2, last - 1, last}))
    assert points[-1] == (last, Pld().compose(steps, relation="zero_out").epsilon(DELTA))


@pytest.mark.slow
def test_epsilon_of_every_step_of_a_thousand_is_close_to_pld() -> None:
    steps = [(_step(0.0445, 3.0), 1000)]
    points = Pld().spending(steps, [1000], delta=DELTA, relation="zero_out")
    _check_close(steps, points, range(1, 1001))


def test_points_are_near_each_other_and_rise() -> None:
    steps = [(_step(0.01, 1.0), 10_000)]
    points = Pld().spending(steps, [1000, 10_000], delta=DELTA, relation="zero_out")
    assert len(points) >= 256
    assert 1000 in dict(points)
    for (before, low), (after, high) in pairwise(points):
        assert before < after
        assert low <= high
        assert after == before + 1 or high - low <= max(0.003 * high, 0.0006)


def test_events_before_the_first_step_count_from_the_start() -> None:
    before = [(GaussianDpEvent(3.0), 1)]
    steps = [(_step(0.02, 1.0), 50)]
    accountant = with_prelude(Pld(), before)
    points = accountant.spending(steps, [0, 50], delta=DELTA, relation="zero_out")
    assert points[0][0] == 0
    for step, epsilon in points[::20]:
        both = [*before, *first(steps, step)]
        exact = Pld().compose(both, relation="zero_out").epsilon(DELTA)
        assert exact - 1e-9 <= epsilon <= exact + max(0.005 * exact, 0.001)


def test_a_bound_that_may_fail_is_read_at_what_is_left_of_delta() -> None:
    steps = [(_step(0.02, 1.0), 20)]
    failing = with_failure(Pld(), DELTA / 2)
    found = failing.spending(steps, [20], delta=DELTA, relation="zero_out")
    plain = Pld().spending(steps, [20], delta=DELTA / 2, relation="zero_out")
    assert found == plain
    assert failing.spending(steps, [20], delta=DELTA / 4, relation="zero_out") == [(20, math.inf)]


def test_unsampled_noise_and_other_accountants_state_256_points() -> None:
    alone = Pld().spending([(GaussianDpEvent(50.0), 700)], [700], delta=DELTA, relation="zero_out")
    moments = Rdp().spending([(_step(0.01, 1.0), 700)], [700], delta=DELTA, relation="zero_out")
    assert len(alone) >= 256
    assert len(moments) >= 256


def test_events_that_no_proof_covers_are_refused() -> None:
    from dp_accounting import NonPrivateDpEvent

    with pytest.raises(PrivacyRefusal):
        Pld().spending([(NonPrivateDpEvent(), 3)], [3], delta=DELTA, relation="zero_out")
