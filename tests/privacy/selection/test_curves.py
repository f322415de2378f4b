"""Curves of selections and of joint runs: bounds stay bounds, alone, mixed and composed."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.events.disjoint import event_class as disjoint
from dppipe.privacy.events.one_of import event_class as one_of
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.gaussian import GaussianCurve, gaussian_delta
from dppipe.privacy.selection.chords import Chords, read_chords
from dppipe.privacy.selection.costs import SelectionCurve, selection_shift
from dppipe.privacy.selection.events import run_curve
from dppipe.privacy.selection.repetitions import Repetitions
from dppipe.privacy.selection.scores import free_noise_std, with_score
from dppipe.privacy.tradeoff.blow_up import blow_up_through

Gaussian = dp_accounting.GaussianDpEvent
Laplace = dp_accounting.LaplaceDpEvent
Select = dp_accounting.dp_event.RepeatAndSelectDpEvent
RUNS = Repetitions(mean=10.0, shape=0.0)
MUS = st.floats(0.05, 3.0)


@settings(deadline=None, max_examples=60)
@given(MUS, st.integers(2, 60), st.floats(0.0, 12.0))
def test_chords_never_lie_below_the_curve(mu: float, points: int, epsilon: float) -> None:
    chords = read_chords(GaussianCurve(mu), points=points)
    exact = float(gaussian_delta(epsilon, 1 / mu)) * (1 - 1e-12)
    assert chords.at(epsilon) >= exact
    assert chords.hull().at(epsilon) >= exact
    found = chords.epsilon(1e-5)
    assert math.isinf(found) or chords.at(found) <= 1e-5


@settings(deadline=None, max_examples=40)
@given(MUS, st.sampled_from([0.0, 0.5, 1.0, math.inf]), st.floats(1.5, 200))
def test_c_is_at_least_its_value_at_every_point(mu: float, shape: float, mean: float) -> None:
    """At every x, B of the curve's own lines; the ends of the pieces are enough."""
    runs = Repetitions(mean=mean, shape=shape)
    chords = read_chords(GaussianCurve(mu), points=80)
    found = selection_shift(chords, runs)
    x = np.concatenate([np.linspace(0, 1, 3001), np.logspace(-12, -1, 500)])
    grown = runs.log_growth(x, np.maximum(blow_up_through(chords.epsilons, chords.deltas)(x), x))
    assert found >= float(grown.max()) * (1 - 1e-12) - 1e-12
    if shape == math.inf:
        assert found == pytest.approx(mean * float(gaussian_delta(0.0, 1 / mu)), rel=1e-9)


def test_a_selection_alone_and_beside_next_to_nothing_cost_the_same() -> None:
    event = Select(Gaussian(2.0), 10.0, 1.0)
    alone = Pld().compose([(event, 1)], relation="zero_out")
    beside = Pld().compose([(event, 1), (Laplace(1e6), 1)], relation="zero_out")
    for delta in (1e-3, 1e-5, 1e-7):
        assert alone.epsilon(delta) <= beside.epsilon(delta) <= alone.epsilon(delta) + 2e-3


def test_delta_and_epsilon_of_a_selection_are_one_curve() -> None:
    best = SelectionCurve(GaussianCurve(0.5), RUNS)
    for delta in (0.3, 1e-2, 1e-5, 1e-8):
        assert best.delta(best.epsilon(delta)) <= delta * (1 + 1e-6)
    assert best.epsilon(0.999) == 0
    assert [best.delta(e) for e in (0.0, 1.0, 2.0, 3.0)] == sorted(
        (best.delta(e) for e in (0.0, 1.0, 2.0, 3.0)), reverse=True
    )


def test_composed_selections_lie_between_one_and_their_sum() -> None:
    event = Select(Gaussian(3.0), 5.0, 0.0)
    one, two = Pld().curve([(event, 2)], [1, 2], delta=1e-5, relation="zero_out")
    assert one < two <= 2 * Pld().compose([(event, 1)], relation="zero_out").epsilon(5e-6)


def test_one_of_several_is_the_weighted_sum_of_deltas() -> None:
    event = one_of()((Gaussian(1.0), Gaussian(4.0)), (0.25, 0.75))
    curve = run_curve(event, relation="zero_out")
    for epsilon in (0.0, 0.5, 2.0):
        parts = 0.25 * gaussian_delta(epsilon, 1.0) + 0.75 * gaussian_delta(epsilon, 4.0)
        assert curve.delta(epsilon) == pytest.approx(float(parts), rel=1e-9)
        assert curve.delta(epsilon) >= float(parts)
    found = curve.epsilon(1e-5)
    assert curve.delta(found) <= 1e-5
    assert found <= GaussianCurve(1.0).epsilon(1e-5)


def test_candidates_of_which_one_is_dear_cost_more_than_the_cheap_one() -> None:
    cheap = Select(Gaussian(4.0), 10.0, 0.0)
    both = Select(one_of()((Gaussian(4.0), Gaussian(1.0)), (0.9, 0.1)), 10.0, 0.0)
    dear = Select(Gaussian(1.0), 10.0, 0.0)
    for kind in (Pld(), Rdp()):
        costs = [
            kind.compose([(event, 1)], relation="zero_out").epsilon(1e-5)
            for event in (cheap, both, dear)
        ]
        assert 1.1 * costs[0] < costs[1] <= costs[2] * (1 + 1e-9)


def test_candidates_alike_are_one_event() -> None:
    alike = one_of()((Gaussian(2.0), Gaussian(2.0)), (0.3, 0.7))
    assert merge([(alike, 1)]) == {Gaussian(2.0): 1}
    (both,) = merge([(one_of()((Gaussian(2.0), Gaussian(1.0), Gaussian(2.0)), (0.3, 0.5, 0.2)), 1)])
    assert both.weights == (0.5, 0.5)


@pytest.mark.parametrize("weights", [(0.5,), (0.5, 0.6), (0.2, 0.3), (0.5, 0.25, 0.25)])
def test_weights_that_are_no_chances_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(PrivacyRefusal, match=r"event\.weights"):
        merge([(one_of()((Gaussian(2.0), Gaussian(1.0)), weights), 1)])


def test_disjoint_records_cost_the_larger_curve_at_every_epsilon() -> None:
    event = disjoint()((Gaussian(2.0), Laplace(1.5)))
    curve = run_curve(event, relation="zero_out")
    laplace = run_curve(Laplace(1.5), relation="zero_out")
    for epsilon in (0.0, 0.3, 0.6, 2.0):
        expected = max(float(gaussian_delta(epsilon, 2.0)), laplace.delta(epsilon))
        assert curve.delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert merge([(disjoint()((Gaussian(2.0), dp_accounting.NoOpDpEvent())), 1)]) == {
        Gaussian(2.0): 1
    }


def test_an_event_inside_without_a_proof_is_refused() -> None:
    mixed = one_of()((Gaussian(2.0), dp_accounting.ZCDpEvent(0.1, 0.0)), (0.5, 0.5))
    for event in (mixed, Select(mixed, 5.0, 1.0)):
        with pytest.raises(PrivacyRefusal, match="no proof"):
            Pld().compose([(event, 1)], relation="zero_out")


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_a_free_score_adds_nothing_and_less_noise_does(relation: str) -> None:
    run = Gaussian(2.0)
    curve = read_chords(run_curve(run, relation=relation))  # type: ignore[arg-type]
    free = free_noise_std(curve)
    alone, with_free, with_less = (
        Pld().compose([(Select(event, 10.0, 0.0), 1)], relation=relation)  # type: ignore[arg-type]
        for event in (
            run,
            with_score(run, free, relation=relation),  # type: ignore[arg-type]
            with_score(run, 0.8 * free, relation=relation),  # type: ignore[arg-type]
        )
    )
    assert with_free.epsilon(1e-5) == pytest.approx(alone.epsilon(1e-5), rel=1e-6)
    assert with_less.epsilon(1e-5) > 1.1 * alone.epsilon(1e-5)


def test_a_count_of_right_answers_changes_by_one_also_where_a_record_is_replaced() -> None:
    """Accountants double the sensitivity under replace_one; a score's event undoes that."""
    silent = dp_accounting.NoOpDpEvent()
    costs = [
        run_curve(with_score(silent, 1.5, relation=relation), relation=relation).epsilon(1e-5)
        for relation in ("zero_out", "replace_one")
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)
    assert costs[0] == pytest.approx(GaussianCurve(1 / 1.5).epsilon(1e-5), rel=1e-9)


def test_runs_that_protect_nobody_have_no_useful_bound() -> None:
    found = Pld().compose([(Select(Gaussian(1e-4), 10.0, 0.0), 1)], relation="zero_out")
    assert found.epsilon(1e-5) > 1e6
    beside = Pld().compose(
        [(Select(Gaussian(1e-4), 10.0, 0.0), 1), (Gaussian(5.0), 1)], relation="zero_out"
    )
    assert math.isinf(beside.epsilon(1e-5))


def test_one_point_is_a_valid_profile() -> None:
    one = Chords(np.array([1.0]), np.array([0.0]))
    assert one.at(1.0) == 0
    assert one.at(0.0) == pytest.approx(1 - math.exp(-1))
    assert one.epsilon(1e-9) == pytest.approx(1.0)
