"""Scores of canaries: likelihood ratios by hand, epochs that are cut off, and guesses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.audit.one_run.coins import draw_coins
from dppipe.audit.one_run.curve_test import gaussian_inverse, p_value_of_claim
from dppipe.audit.one_run.epsilon_delta_bound import epsilon_lower_bound
from dppipe.audit.one_run.guesses import Guesses
from dppipe.audit.one_run.guessing import count_right
from dppipe.audit.one_run.plan import AuditPlan, default_number, guesses_of
from dppipe.audit.one_run.scores import Scores
from dppipe.errors import UsageError

finite = st.floats(-20, 20)


def audit_plan(number: int, inside: int, outside: int) -> AuditPlan:
    return AuditPlan(
        canaries="reserved",
        number=number,
        guessed_in=inside,
        guessed_out=outside,
        level=0.05,
        delta=1e-5,
        relation="zero_out",
        made_up=True,
        commitment="",
    )


@given(
    noisy=st.lists(finite, min_size=1, max_size=5), z=st.floats(0.3, 5), q=st.floats(0.001, 0.999)
)
def test_the_score_of_poisson_steps_is_the_sum_of_their_log_ratios(noisy, z, q):
    scores = Scores(1)
    expected = 0.0
    for value in noisy:
        scores.add([value * 2.0], shift=2.0, noise=2.0 * z, rate=q)
        s = value / z
        expected += math.log(1 - q + q * math.exp(s / z - 1 / (2 * z * z)))
    assert scores.total[0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(noisy=st.lists(finite, min_size=1, max_size=6), z=st.floats(0.3, 5))
def test_an_epoch_has_the_mean_of_its_ratios_and_an_unseen_step_a_ratio_of_one(noisy, z):
    scores = Scores(1, epoch=6)
    for value in noisy:
        scores.add([value], shift=1.0, noise=z, rate=0.5)
    scores.close_epoch()
    ratios = [math.exp((value - 0.5) / z**2) for value in noisy] + [1.0] * (6 - len(noisy))
    assert scores.total[0] == pytest.approx(math.log(sum(ratios) / 6), rel=1e-9, abs=1e-9)


@given(value=finite, z=st.floats(0.3, 5))
def test_laplace_noise_has_its_own_ratio(value, z):
    scores = Scores(1, laplace=True)
    scores.add([value], shift=1.0, noise=z, rate=1.0)
    assert scores.total[0] == pytest.approx((abs(value) - abs(value - 1)) / z, abs=1e-12)


@given(value=finite, z=st.floats(0.3, 5), q=st.floats(0.01, 1))
def test_where_a_canary_is_replaced_the_score_changes_its_sign_with_the_release(value, z, q):
    up = Scores(1, replaces=True)
    up.add([value], shift=1.0, noise=z, rate=q)
    down = Scores(1, replaces=True)
    down.add([-value], shift=1.0, noise=z, rate=q)
    assert up.total[0] == pytest.approx(-down.total[0], rel=1e-9, abs=1e-12)
    assert value < 0.01 or up.total[0] > 0


def test_saved_scores_go_on_where_they_were_but_for_the_epoch_that_was_cut_off():
    whole = Scores(3, epoch=2)
    cut = Scores(3, epoch=2)
    for step in range(3):
        for scores in (whole, cut):
            scores.add([0.1 * step, 1.0, -1.0], shift=1.0, noise=1.0, rate=0.5)
    again = Scores(3, epoch=2).restore(cut.to_data())
    whole.close_epoch()
    assert again.total.tolist() == whole.total.tolist()
    assert again.steps == 3


def test_the_highest_are_guessed_in_and_the_lowest_out():
    scores = np.array([5.0, 4.0, 0.0, -1.0, math.nan, -3.0])
    present = np.array([True, False, True, True, False, False])
    guesses = count_right(audit_plan(6, 2, 2), scores, present)
    assert (guesses.canaries, guesses.made) == (6, 4)
    assert guesses.right == 3  # of 5.0, 4.0 the first; -3.0 and NaN, the lowest, are out


def test_without_guesses_on_a_side_none_is_made_there():
    scores = np.arange(4.0)
    present = np.array([True, True, True, True])
    assert count_right(audit_plan(4, 2, 0), scores, present).right == 2
    assert count_right(audit_plan(4, 0, 2), scores, present).right == 0


@settings(max_examples=30, deadline=None)
@given(made=st.integers(1, 25), extra=st.integers(0, 400), delta=st.sampled_from([0, 1e-6, 1e-3]))
def test_more_right_guesses_contradict_more_and_more_abstentions_less(made, extra, delta):
    bounds = []
    values = []
    for right in range(made + 1):
        guesses = Guesses(made + extra, made, right)
        bounds.append(epsilon_lower_bound(guesses, delta=delta, level=0.05))
        values.append(p_value_of_claim(guesses, gaussian_inverse(0.5)))
    assert bounds == sorted(bounds)
    assert values == sorted(values, reverse=True)
    all_guessed = epsilon_lower_bound(Guesses(made, made, made), delta=delta, level=0.05)
    assert bounds[-1] <= all_guessed + 1e-12


def test_defaults_follow_the_number_of_canaries():
    assert default_number("reserved", records=10) == 1000
    assert (default_number("inputs", records=1438), default_number("inputs", records=10**6)) == (
        71,
        500,
    )
    assert (guesses_of(1000), guesses_of(100), guesses_of(3)) == (47, 15, 1)


def test_impossible_counts_are_refused():
    for wrong in ((10, 11, 3), (10, 5, 6), (0, 0, 0), (10, 5, -1)):
        with pytest.raises(UsageError, match="guesses"):
            Guesses(*wrong)


def test_coins_are_fair_and_no_two_audits_share_them():
    """100,000 fair coins: a share 5 sigma away has a chance of 6e-7."""
    coins = draw_coins(100_000)
    assert abs(coins.present.mean() - 0.5) < 5 * 0.5 / math.sqrt(100_000)
    assert draw_coins(64).present.tolist() != draw_coins(64).present.tolist()
    assert "secret" not in repr(coins)
    assert coins.salt not in repr(coins)
