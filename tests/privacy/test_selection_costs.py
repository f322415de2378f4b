"""Selections: chances against enumeration, epsilon over neighbouring scores, and what many of them cost."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.privacy.rdp.concentrated import release_rho
from dppipe.privacy.textbook.selections import (
    Selection,
    exponential_chances,
    permute_and_flip_chances,
    selection_event,
    selection_rho,
)
from dppipe.privacy.textbook.together import cost_together

SCORES = st.lists(st.floats(-20, 20), min_size=1, max_size=5)
KINDS: st.SearchStrategy[Selection] = st.sampled_from(["exponential", "permute_and_flip"])
CHANCES = {"exponential": exponential_chances, "permute_and_flip": permute_and_flip_chances}


def enumerated(scores: list[float], epsilon: float) -> list[float]:
    """Return permute-and-flip's chances by going through every order."""
    accepted = [math.exp(epsilon * (score - max(scores)) / 2) for score in scores]
    chances = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1 / len(orders)
        for candidate in order:
            chances[candidate] += left * accepted[candidate]
            left *= 1 - accepted[candidate]
    return chances


def test_golden_chances_of_three_scores() -> None:
    golden = pytest.approx([0.186324, 0.307196, 0.506480], abs=1e-6)
    assert exponential_chances([0, 1, 2], 1) == golden
    monotone = pytest.approx([0.090031, 0.244728, 0.665241], abs=1e-6)
    assert exponential_chances([0, 1, 2], 2) == monotone
    flipped = pytest.approx([0.146751, 0.266077, 0.587172], abs=1e-6)
    assert permute_and_flip_chances([0, 1, 2], 1) == flipped


@settings(deadline=None)
@given(SCORES, st.floats(0.01, 10))
def test_permute_and_flip_is_what_every_order_gives(scores: list[float], epsilon: float) -> None:
    found = permute_and_flip_chances(scores, epsilon)
    assert found == pytest.approx(enumerated(scores, epsilon), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(SCORES, st.floats(0.01, 10))
def test_permute_and_flip_never_expects_a_lower_score(scores: list[float], epsilon: float) -> None:
    def expected(chances: list[float]) -> float:
        return math.fsum(chance * score for chance, score in zip(chances, scores, strict=True))

    exponential = expected(exponential_chances(scores, epsilon))
    assert expected(permute_and_flip_chances(scores, epsilon)) >= exponential - 1e-9


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-1, 1)), min_size=1, max_size=5), KINDS)
def test_no_chance_changes_by_more_than_epsilon(
    moved: list[tuple[float, float]], kind: Selection
) -> None:
    before = CHANCES[kind]([score for score, _ in moved], 1.0)
    after = CHANCES[kind]([score + by for score, by in moved], 1.0)
    for one, other in zip(before, after, strict=True):
        assert one <= math.e * other * (1 + 1e-9)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), KINDS)
def test_rho_is_rounded_up_and_is_the_event_s(epsilon: float, kind: Selection) -> None:
    exact = Fraction(repr(epsilon)) ** 2 / (8 if kind == "exponential" else 2)
    found = Fraction(repr(selection_rho(kind, epsilon)))
    assert exact <= found <= exact * Fraction(100001, 100000)
    charged = release_rho(selection_event(kind, epsilon), relation="add_remove")
    assert charged == pytest.approx(float(exact), rel=1e-12)


def test_golden_cost_of_many_selections() -> None:
    ten, hundred = cost_together(
        selection_event("exponential", 0.1), [10, 100], delta=1e-5, relation="zero_out"
    )
    assert (ten.epsilon, hundred.epsilon) == (
        pytest.approx(0.61574, abs=1e-4),
        pytest.approx(2.16572, abs=1e-4),
    )
    (pure,) = cost_together(
        selection_event("permute_and_flip", 0.1), [100], delta=1e-5, relation="zero_out"
    )
    assert pure.epsilon == pytest.approx(4.30679, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_one_selection_at_a_delta_is_at_least_the_worst_pair_s(epsilon: float) -> None:
    """Two outcomes at odds e^epsilon: delta is (e^epsilon - e^x) / (1 + e^epsilon) at x."""
    (found,) = cost_together(
        selection_event("permute_and_flip", epsilon), [1], delta=1e-3, relation="zero_out"
    )
    with mpmath.workdps(40):
        odds = mpmath.exp(epsilon)
        exact = mpmath.log(odds - mpmath.mpf("1e-3") * (1 + odds))
    assert exact <= found.epsilon <= exact + 2e-4


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 1)), min_size=1, max_size=5), KINDS)
def test_scores_that_move_in_one_direction_need_no_factor_of_two(
    moved: list[tuple[float, float]], kind: Selection
) -> None:
    before = CHANCES[kind]([score for score, _ in moved], 2.0)
    after = CHANCES[kind]([score + by for score, by in moved], 2.0)
    for one, other in zip(before, after, strict=True):
        assert one <= math.e * other * (1 + 1e-9)
        assert other <= math.e * one * (1 + 1e-9)
    if kind == "exponential":  # the range on which its zCDP rests
        losses = [math.log(one / other) for one, other in zip(before, after, strict=True)]
        assert max(losses) - min(losses) <= 1 + 1e-9
