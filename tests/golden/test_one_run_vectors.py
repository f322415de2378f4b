"""Bounds from one run: published values, closed forms and other implementations' results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from dppipe.audit.one_run.ceiling import ceiling, ceiling_of_pure_epsilon, gaussian_family_ceiling
from dppipe.audit.one_run.curve_test import (
    gaussian_family_epsilon,
    gaussian_family_mu,
    gaussian_inverse,
    p_value_of_claim,
    pure_inverse,
    rejects,
)
from dppipe.audit.one_run.epsilon_delta_bound import epsilon_lower_bound, p_value_of_epsilon
from dppipe.audit.one_run.guesses import Guesses
from dppipe.privacy.gaussian import GaussianCurve
from dppipe.privacy.tradeoff.blow_up import blow_up_of

LEVEL = 0.05


def test_the_p_value_of_one_epsilon_is_the_published_one():
    found = p_value_of_epsilon(Guesses(100, 100, 75), epsilon=math.log(3), delta=0.0)
    assert found == pytest.approx(0.55347082, abs=5e-9)


@pytest.mark.parametrize(
    ("guesses", "delta", "published", "exact"),
    [
        ((100, 100, 75), 0.0, 0.702, 0.70221393),
        ((100, 100, 75), 1e-4, 0.699, 0.69946681),
        ((1000, 100, 75), 1e-4, 0.673, 0.67298466),
        ((100000, 1510, 1439), 1e-5, 2.675, 2.67585101),
        ((10000, 10000, 9820), 1e-5, 3.87, 3.87131693),
        ((16, 16, 16), 0.0, 1.58, 1.58032314),
    ],
)
def test_epsilon_is_the_published_one(guesses, delta, published, exact):
    found = epsilon_lower_bound(Guesses(*guesses), delta=delta, level=LEVEL)
    assert found == pytest.approx(exact, abs=5e-9)
    assert found == pytest.approx(published, abs=1.01e-3 if published != 3.87 else 5e-3)


def test_the_term_of_delta_counts_all_canaries_and_not_only_guesses():
    abstaining = epsilon_lower_bound(Guesses(100000, 1510, 1439), delta=1e-5, level=LEVEL)
    without = epsilon_lower_bound(Guesses(1510, 1510, 1439), delta=1e-5, level=LEVEL)
    assert without == pytest.approx(2.8051, abs=5e-5)
    assert abstaining < without


def test_all_right_has_a_closed_form_without_delta():
    for canaries in (1, 16, 1000):
        every = Guesses(canaries, canaries, canaries)
        closed = max(0.0, ceiling_of_pure_epsilon(canaries, level=LEVEL))
        assert epsilon_lower_bound(every, delta=0.0, level=LEVEL) == pytest.approx(closed, abs=1e-9)


@pytest.mark.parametrize(
    ("canaries", "epsilon", "mu", "family"),
    [
        (16, 1.5798, 0.9556, 4.153),
        (100, 3.4902, 1.7032, 8.216),
        (1000, 5.7823, 2.3681, 12.335),
        (5000, 7.2839, 2.7627, 14.997),
    ],
)
def test_ceilings_of_so_many_canaries(canaries, epsilon, mu, family):
    guesses = Guesses(canaries, canaries, 0)
    assert ceiling(guesses, delta=1e-5, level=LEVEL) == pytest.approx(epsilon, abs=5e-5)
    assert gaussian_family_mu(guesses.all_right, level=LEVEL) == pytest.approx(mu, abs=5e-5)
    found = gaussian_family_ceiling(guesses, delta=1e-5, level=LEVEL)
    assert found == pytest.approx(family, abs=5e-4)


@pytest.mark.parametrize(
    ("guesses", "epsilon"),
    [
        ((100, 100, 75), 1.57358),
        ((1000, 100, 75), 1.00592),
        ((1000, 1000, 600), 0.58354),
        ((1000, 1000, 750), 1.81890),
        ((1000, 100, 95), 3.32330),
    ],
)
def test_the_gaussian_family_agrees_with_another_implementation(guesses, epsilon):
    found = gaussian_family_epsilon(Guesses(*guesses), delta=1e-5, level=LEVEL)
    assert found == pytest.approx(epsilon, abs=5e-6)


@pytest.mark.parametrize(
    ("guesses", "p_value"),
    [((1000, 1000, 760), 0.654429), ((1000, 100, 95), 0.282367), ((1000, 100, 99), 0.0285928)],
)
def test_p_values_of_a_gaussian_claim(guesses, p_value):
    closed = p_value_of_claim(Guesses(*guesses), gaussian_inverse(1.0))
    assert closed == pytest.approx(p_value, rel=1e-5)
    # From finitely many points of the curve the blow-up is larger, and so is the p-value.
    polygon = blow_up_of(GaussianCurve(1.0))
    from_points = p_value_of_claim(Guesses(*guesses), lambda y: float(polygon.inverse(y)))
    assert closed <= from_points <= closed * 1.02


@pytest.mark.parametrize(
    ("canaries", "by_epsilon", "by_curve", "chances"),
    [(100, 81, 82, (0.0441, 0.0257)), (1000, 755, 756, (0.0463, 0.0396))],
)
def test_the_least_right_guesses_that_reject_have_at_most_their_chance(
    canaries, by_epsilon, by_curve, chances
):
    """The best guesser of a pure epsilon of 1 is right with one chance each: exact levels."""
    right = range(canaries // 2, canaries + 1)
    first = next(
        v
        for v in right
        if p_value_of_epsilon(Guesses(canaries, canaries, v), epsilon=1.0, delta=0.0) < LEVEL
    )
    second = next(
        v for v in right if rejects(Guesses(canaries, canaries, v), pure_inverse(1.0), level=LEVEL)
    )
    assert (first, second) == (by_epsilon, by_curve)
    chance = float(special.expit(1.0))
    exact = [stats.binom.sf(v - 1, canaries, chance) for v in (first, second)]
    assert exact == pytest.approx(chances, abs=5e-5)
    assert max(exact) <= LEVEL


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [(0.5, 0.142211), (1, 0.268051), (2, 0.501552), (3, 0.719117), (4, 0.924931), (8, 1.666031)],
)
def test_mu_of_an_epsilon(epsilon, mu):
    assert GaussianCurve(mu).epsilon(1e-5) == pytest.approx(epsilon, abs=2e-5)


@pytest.mark.parametrize(
    ("mu", "epsilon", "advantage"),
    [(0.5, 1.993091, 0.197413), (1, 4.377178, 0.382925), (2, 9.997256, 0.682689)],
)
def test_epsilon_and_advantage_of_a_mu(mu, epsilon, advantage):
    assert GaussianCurve(mu).epsilon(1e-5) == pytest.approx(epsilon, abs=5e-7)
    assert GaussianCurve(mu).delta(0.0) == pytest.approx(advantage, abs=5e-7)


@pytest.mark.parametrize(
    ("x", "blown_up"),
    [(1e-4, 0.0032738), (1e-3, 0.0182985), (0.01, 0.0923622), (0.1, 0.3891437), (0.5, 0.8413447)],
)
def test_the_blow_up_of_a_gaussian(x, blown_up):
    found = float(blow_up_of(GaussianCurve(1.0), points=12001)(x))
    assert found == pytest.approx(blown_up, abs=2e-7)
    assert gaussian_inverse(1.0)(blown_up) == pytest.approx(x, rel=2e-5)


def test_scores_at_normal_quantiles_give_what_another_implementation_states():
    """10,000 scores in and out, shifted by 1: the best thresholds of the 386 on the hull."""
    places = (np.arange(10_000) + 0.5) / 10_000
    outside = special.ndtri(places)
    level = LEVEL / 386

    def above(right: int) -> Guesses:
        wrong = int(np.sum(outside >= outside[-right] + 1))
        return Guesses(20_000, right + wrong, right)

    by_epsilon = epsilon_lower_bound(above(2807), delta=1e-6, level=level)
    assert by_epsilon == pytest.approx(1.13346, abs=5e-6)
    by_curve = gaussian_family_epsilon(above(379), delta=1e-6, level=level)
    assert by_curve == pytest.approx(2.164749, abs=5e-7)
