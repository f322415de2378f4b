"""Scores and ROC of membership attacks, against vectors and by their properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.metrics import roc_auc_score

from dppipe.audit.attacks.membership.answers import Answers, logit_confidences
from dppipe.audit.attacks.membership.lira import centre_and_spread, lira_scores
from dppipe.audit.attacks.membership.lira_offline import lira_offline_scores
from dppipe.audit.attacks.membership.loss import loss_scores
from dppipe.audit.attacks.membership.rmia import (
    DEFAULT_A,
    best_a,
    likelihood_ratios,
    mean_outside,
    rmia_scores,
)
from dppipe.audit.attacks.membership.roc import area_under, bounds, make_roc
from dppipe.audit.attacks.membership.shadow import shadow_scores
from dppipe.audit.attacks.membership.shadows import draw_halves
from dppipe.audit.counts import lower_bound, upper_bound
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import blow_up_of

VALUES = st.floats(-5, 5).map(lambda value: round(value, 1))


def test_confidence_of_a_label_is_its_logit():
    found = logit_confidences(np.log([[0.7, 0.2, 0.1]]), np.array([0]))
    assert found[0] == pytest.approx(math.log(7 / 3), abs=1e-12)
    assert found[0] == pytest.approx(0.84729786, abs=1e-8)


def test_confidence_stays_finite_where_the_probability_rounds_to_one():
    rows = np.array([[0.0, -60.0, -61.0]])
    assert math.exp(rows[0, 0]) == 1.0
    expected = -math.log(math.exp(-60) + math.exp(-61))
    assert logit_confidences(rows, np.array([0]))[0] == pytest.approx(expected, rel=1e-12)


def test_lira_equals_the_golden_vectors_with_a_spread_of_each_record():
    # The vectors take a record's own spread: 64 shadows or more.
    inside = np.repeat([True, False], 33)
    shadows = np.concatenate([np.tile([1.0, 2.0, 3.0], 11), np.tile([-1.0, 0.0, 1.0], 11)])
    target = np.array([2.0])
    online = lira_scores(target, shadows[:, None], inside[:, None])
    offline = lira_offline_scores(target, shadows[:, None], inside[:, None])
    assert online[0] == pytest.approx(3.0, abs=1e-12)
    assert offline[0] == pytest.approx(-0.00717864, abs=1e-8)


def test_few_shadows_share_one_spread_around_each_records_own_mean():
    shadows = np.array([[0.0, 100.0], [2.0, 102.0], [7.0, 7.0], [9.0, 9.0]])
    chosen = np.array([[True, True], [True, True], [False, False], [False, False]])
    means, spreads = centre_and_spread(shadows, chosen)
    assert means.tolist() == [1.0, 101.0]
    assert spreads.tolist() == pytest.approx([math.sqrt(2), math.sqrt(2)])


def test_two_shadows_still_have_a_spread():
    shadows = np.array([[0.0, 4.0], [1.0, 1.0]])
    chosen = np.array([[True, True], [False, False]])
    assert centre_and_spread(shadows, chosen)[1].tolist() == [2.0, 2.0]


def test_rmia_equals_the_golden_vector():
    ratio = likelihood_ratios(np.array([0.9]), np.array([0.6]), a=0.3)
    outside = np.array([0.5, 0.7, 0.4])
    population = likelihood_ratios(np.array([0.5, 0.99, 0.2]), outside, a=0.3)
    assert rmia_scores(ratio, population)[0] == pytest.approx(2 / 3, abs=1e-12)


def test_rmia_counts_only_strictly_smaller_ratios():
    assert rmia_scores(np.array([1.0, 2.0]), np.array([1.0, 2.0])).tolist() == [0.0, 0.5]
    assert rmia_scores(np.array([2.0]), np.array([1.0]), gamma=2.0).tolist() == [0.0]


def test_models_that_have_seen_a_record_dont_count_as_without_it():
    shadows = np.array([[0.9, 0.2], [0.1, 0.8]])
    inside = np.array([[True, False], [False, True]])
    assert mean_outside(shadows, inside).tolist() == [0.1, 0.2]


def test_a_is_chosen_on_a_shadow_without_its_complement():
    rng = np.random.default_rng(0)
    inside = draw_halves(np.arange(400), 4, seed=1)
    hardness = rng.uniform(0.2, 0.8, 400)
    shadows = np.clip(hardness + 0.1 * inside + 0.01 * rng.normal(size=(4, 400)), 0.01, 0.99)
    assert best_a(shadows, inside) > 0.5  # dividing by what others give it is what helps here
    # The second shadow may hold anything: it isn't looked at.
    changed = shadows.copy()
    changed[1] = rng.uniform(size=400)
    assert best_a(changed, inside) == best_a(shadows, inside)
    assert best_a(shadows[:2], inside[:2]) == DEFAULT_A


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_every_record_is_in_half_of_the_shadows_and_users_stay_together(users, pairs, seed):
    units = np.random.default_rng(seed).integers(0, users, size=50)
    halves = draw_halves(units, 2 * pairs, seed=seed)
    assert (halves.sum(axis=0) == pairs).all()
    for unit in np.unique(units):
        of_unit = halves[:, units == unit]
        assert (of_unit == of_unit[:, :1]).all()


def _answers(log_probabilities, labels):
    rows = np.arange(len(labels))
    return Answers(-log_probabilities[rows, labels], log_probabilities, labels)


def test_shadow_classifier_learns_that_members_are_confident():
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], 300)
    inside = draw_halves(np.arange(600), 2, seed=3)

    def answers(seen):
        margin = rng.normal(size=600) + np.where(seen, 2.0, 0.0)
        right, wrong = -np.logaddexp(0, -margin), -np.logaddexp(0, margin)
        columns = np.where(labels[:, None] == [0, 1], right[:, None], wrong[:, None])
        return _answers(columns, labels)

    truth = np.arange(600) < 300
    scores = shadow_scores(answers(truth), [answers(seen) for seen in inside], inside)
    assert make_roc(scores, truth).area > 0.85


def test_small_losses_score_high():
    assert loss_scores(np.array([0.1, 2.0])).tolist() == [-0.1, -2.0]


@given(arrays(float, 12, elements=VALUES), arrays(bool, 12))
def test_the_area_is_that_of_an_independent_tool_and_counts_are_those_of_a_loop(scores, truth):
    truth[0], truth[1] = True, False
    roc = make_roc(scores, truth)
    assert roc.area == pytest.approx(roc_auc_score(truth, scores))
    false_rate, true_rate = roc.rates
    assert (roc.true_positives[0], roc.false_positives[0]) == (0, 0)
    assert (false_rate[-1], true_rate[-1]) == (1.0, 1.0)
    for place, threshold in enumerate(np.unique(scores)[::-1], start=1):
        assert roc.true_positives[place] == (scores[truth] >= threshold).sum()
        assert roc.false_positives[place] == (scores[~truth] >= threshold).sum()
    assert roc.advantage == pytest.approx((true_rate - false_rate).max())


def test_a_rate_at_a_false_positive_rate_never_allows_more_false_positives():
    scores = np.concatenate([np.full(10, 2.0), np.full(3, 3.0), np.full(97, 1.0)])
    roc = make_roc(scores, np.arange(110) < 10)
    assert roc.at(0.01).value == 0.0  # three of a hundred stand above all members
    assert roc.at(0.02).value == 0.0
    assert roc.at(0.03).value == 1.0
    assert roc.at(0.03).low == pytest.approx(lower_bound(10, 10, error=0.025))


def test_a_score_that_is_no_number_is_the_lowest():
    roc = make_roc(np.array([np.nan, 1.0, 0.0]), np.array([True, True, False]))
    assert roc.true_positives.tolist() == [0, 1, 1, 2]


def test_bounds_are_clopper_pearsons():
    low, high = bounds(np.array([0, 5, 100]), 100)
    assert low.tolist() == pytest.approx([0, 0.01643188, lower_bound(100, 100, error=0.025)])
    assert high.tolist() == pytest.approx([0.03621669, 0.11283491, 1], abs=1e-8)
    assert high[1] == pytest.approx(upper_bound(5, 100, error=0.025))


def test_an_attack_that_exceeds_the_claim_is_seen_and_one_within_it_is_not():
    # Seeded. Scores of a Gaussian mechanism of mu 1, held against claims of mu 0.2 and 1.
    n = 2000
    truth = np.arange(2 * n) < n
    scores = np.random.default_rng(5).normal(size=2 * n) + truth
    roc = make_roc(scores, truth)
    assert roc.above(blow_up_of(GaussianCurve(mu=1.0))) is None
    point = roc.above(blow_up_of(GaussianCurve(mu=0.2)))
    assert point is not None
    assert point.true_positives > float(blow_up_of(GaussianCurve(mu=0.2))(point.false_positives))


def test_no_false_positive_is_no_proof_of_a_rate_of_zero():
    # One member above all non-members: B(0) is tiny, yet nothing is contradicted.
    truth = np.arange(200) < 100
    scores = np.concatenate([[9.0], np.zeros(199)])
    assert make_roc(scores, truth).above(blow_up_of(GaussianCurve(mu=0.1))) is None


def test_area_counts_ties_as_one_half():
    assert area_under(np.array([1.0]), np.array([1.0])) == 0.5
    wins = stats.mannwhitneyu([3.0, 1.0], [1.0, 0.0]).statistic / 4
    assert area_under(np.array([3.0, 1.0]), np.array([1.0, 0.0])) == wins
