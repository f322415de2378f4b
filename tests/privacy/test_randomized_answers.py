"""Randomised response: losses by mpmath, there and back, agreement with its event, and an estimate's spread."""

from __future__ import annotations

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dppipe.privacy.budget import Relation
from dppipe.privacy.textbook.one_step import step_epsilon
from dppipe.privacy.textbook.randomized_answers import RandomizedAnswers, answers_within

BUCKETS = st.integers(2, 1000)
RELATIONS: st.SearchStrategy[Relation] = st.sampled_from(["replace_one", "zero_out"])


def largest_loss(truth: float, k: int, relation: Relation) -> mpmath.mpf:
    """Return the largest log ratio over all pairs of neighbours and all answers."""
    p = mpmath.mpf(repr(truth))
    lie = (1 - p) / (k - 1)
    even = mpmath.mpf(1) / k
    pairs = [(p, lie), (lie, p)]
    if relation == "zero_out":
        pairs = [(p, even), (lie, even), (even, p), (even, lie)]
    return max(mpmath.log(one / other) for one, other in pairs)


@pytest.mark.parametrize(
    ("truth", "buckets", "ratio"), [(0.75, 2, 3), (0.5, 3, 2), (0.9, 2, 9), (0.4, 4, 2)]
)
def test_golden_ratios_of_textbooks(truth: float, buckets: int, ratio: int) -> None:
    found = RandomizedAnswers(truth, buckets).epsilon()
    assert found == pytest.approx(float(mpmath.log(ratio)), abs=1e-13)
    assert found >= mpmath.log(ratio)


def test_two_coins_are_a_truth_probability_of_three_quarters() -> None:
    assert RandomizedAnswers(0.75, 2).noise_parameter == 0.5


@settings(deadline=None)
@given(st.floats(1e-4, 0.9999), BUCKETS, RELATIONS)
def test_epsilon_is_the_largest_loss_rounded_up(share: float, k: int, relation: Relation) -> None:
    truth = 1 / k + share * (1 - 1 / k)
    assume(truth < 1 - 1e-12)
    with mpmath.workdps(50):
        exact = largest_loss(truth, k, relation)
        found = mpmath.mpf(repr(RandomizedAnswers(truth, k).epsilon(relation)))
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-13"))
        shown = mpmath.mpf(repr(RandomizedAnswers(truth, k).epsilon(relation, digits=4)))
        assert exact <= shown <= exact * (1 + mpmath.mpf("1.01e-3"))


@settings(deadline=None)
@given(st.floats(1e-6, 25), BUCKETS, RELATIONS)
def test_answers_for_an_epsilon_keep_it_and_use_it_up(
    epsilon: float, k: int, relation: Relation
) -> None:
    found = answers_within(epsilon, buckets=k, relation=relation)
    with mpmath.workdps(50):
        spent = largest_loss(found.truth, k, relation)
        assert mpmath.mpf("0.9999") * epsilon <= spent <= mpmath.mpf(repr(epsilon))


@settings(deadline=None)
@given(st.floats(0.01, 0.99), st.integers(2, 50), RELATIONS)
def test_the_event_charges_the_same_epsilon(share: float, k: int, relation: Relation) -> None:
    answers = RandomizedAnswers(1 / k + share * (1 - 1 / k), k)
    event = dp_accounting.RandomizedResponseDpEvent(answers.noise_parameter, k)
    charged = step_epsilon(event, delta=1e-5, relation=relation)
    assert charged == pytest.approx(answers.epsilon(relation), rel=1e-9)


@pytest.mark.parametrize(("truth", "buckets"), [(0.75, 2), (0.45, 4)])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_spread_of_an_estimate_is_that_of_drawn_answers(
    truth: float, buckets: int, share: float
) -> None:
    """A false alarm, 6 standard errors of a standard deviation over 4000 estimates: 2e-9."""
    generator = np.random.default_rng(1)
    answers = 500
    lie = (1 - truth) / (buckets - 1)
    rate = truth if share else lie
    estimates = (generator.binomial(answers, rate, 4000) / answers - lie) / (truth - lie)
    bound = RandomizedAnswers(truth, buckets).spread(answers)
    error = 6 / np.sqrt(2 * 4000)
    assert abs(estimates.mean() - share) < 6 * bound / np.sqrt(4000)
    assert estimates.std() < bound * (1 + error)
    worst = max(truth * (1 - truth), lie * (1 - lie)) == rate * (1 - rate)
    if worst:
        assert estimates.std() > bound * (1 - error)


@settings(deadline=None)
@given(st.integers(1, 10**6))
def test_the_spread_is_rounded_up(answers: int) -> None:
    with mpmath.workdps(50):
        exact = mpmath.sqrt(mpmath.mpf(3) / 16 / answers) / (mpmath.mpf(1) / 2)
        assert mpmath.mpf(repr(RandomizedAnswers(0.75, 2).spread(answers))) >= exact
