"""Bounds from counts: vectors of independent tools, and how often they err."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dppipe.audit.counts import TwoWorlds, lower_bound, upper_bound
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import blow_up_of


@pytest.mark.parametrize(
    ("hits", "draws", "lower", "upper"),
    [
        (0, 100, 0.0, 0.03621669),
        (5, 100, 0.01643188, 0.11283491),
        (0, 1000, 0.0, 0.00368208),
        (500, 1000, 0.46854917, 0.53145083),
    ],
)
def test_clopper_pearson_bounds_equal_the_vectors(hits, draws, lower, upper):
    assert lower_bound(hits, draws, error=0.025) == pytest.approx(lower, abs=5e-9)
    assert upper_bound(hits, draws, error=0.025) == pytest.approx(upper, abs=5e-9)


@given(draws=st.integers(1, 60), rate=st.floats(1e-9, 1), error=st.sampled_from([0.05, 0.01, 1e-4]))
def test_a_bound_errs_no_more_often_than_stated(draws, rate, error):
    counts = np.arange(draws + 1)
    chances = stats.binom.pmf(counts, draws, rate)
    above = sum(c for k, c in enumerate(chances) if lower_bound(k, draws, error=error) > rate)
    below = sum(c for k, c in enumerate(chances) if upper_bound(k, draws, error=error) < rate)
    assert above <= error * (1 + 1e-9)
    assert below <= error * (1 + 1e-9)


@pytest.mark.parametrize(
    ("counts", "epsilon"),
    [((900, 50), 2.59920648), ((300, 5), 3.15119697), ((500, 159), 0.93924688)],
)
def test_two_worlds_bound_epsilon_as_the_vectors_say(counts, epsilon):
    true_positives, false_positives = counts
    found = TwoWorlds(true_positives, 1000, false_positives, 1000)
    assert found.epsilon(delta=1e-5, error=0.05) == pytest.approx(epsilon, abs=1e-7)


def test_both_directions_are_tested():
    claim = blow_up_of(GaussianCurve(mu=0.2))
    forwards = TwoWorlds(300, 1000, 5, 1000)
    backwards = TwoWorlds(995, 1000, 700, 1000)  # what the complement of such a threshold counts
    assert forwards.contradicts(claim, error=0.01)
    assert backwards.contradicts(claim, error=0.01)
    assert forwards.epsilon(delta=1e-5, error=0.05) == pytest.approx(
        backwards.epsilon(delta=1e-5, error=0.05)
    )


def test_equal_worlds_contradict_nothing():
    assert not TwoWorlds(500, 1000, 500, 1000).contradicts(
        blow_up_of(GaussianCurve(mu=0.0)), error=0.5
    )
