"""The second opinion: dp_accounting's own PLD, with an error that is stated and holds."""

from __future__ import annotations

from typing import Any

import dp_accounting
import pytest

from dppipe.privacy.accountants import Pld
from dppipe.privacy.budget import Relation
from dppipe.privacy.second_opinion import SecondOpinion, second_opinion

G = dp_accounting.GaussianDpEvent
Steps = list[tuple[Any, int]]


def sampled(rate: float, z: float) -> Any:
    return dp_accounting.PoissonSampledDpEvent(rate, G(z))


def opinion(steps: Steps, *, relation: Relation, delta: float = 1e-5) -> SecondOpinion:
    return second_opinion(lambda by: by.compose(steps, relation=relation).epsilon(delta))


CASES: list[tuple[Relation, Steps]] = [
    ("add_remove", [(sampled(0.01, 1.0), 1000)]),
    ("replace_one", [(sampled(0.1, 2.0), 20)]),
    ("zero_out", [(G(3.0), 40)]),
    ("add_remove", [(dp_accounting.LaplaceDpEvent(10.0), 50), (sampled(0.02, 1.5), 30)]),
]


@pytest.mark.parametrize(("relation", "steps"), CASES)
def test_the_second_opinion_is_ours_within_its_error(relation: Relation, steps: Steps) -> None:
    found = opinion(steps, relation=relation)
    ours = Pld().compose(steps, relation=relation).epsilon(1e-5)
    assert found.epsilon is not None
    assert found.error is not None
    assert found.epsilon - found.error <= ours
    assert abs(found.epsilon - ours) <= found.error + 1e-3 * ours
    assert found.error <= 0.05 * ours
    assert not found.contradicts(ours)


@pytest.mark.parametrize(("relation", "steps"), CASES[:3])
def test_an_epsilon_that_is_a_percent_too_low_is_contradicted(
    relation: Relation, steps: Steps
) -> None:
    ours = Pld().compose(steps, relation=relation).epsilon(1e-5)
    assert opinion(steps, relation=relation).contradicts(0.99 * ours)


def test_a_long_schedule_is_rounded_and_its_error_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dppipe.privacy.second_opinion._DISTINCT", 3)
    steps = [(sampled(0.01, 1.0 + i / 20), 20) for i in range(8)]
    ours = Pld().compose(steps, relation="zero_out").epsilon(1e-5)
    found = opinion(steps, relation="zero_out")
    assert found.epsilon is not None
    assert found.error is not None
    assert found.epsilon - found.error <= ours < found.epsilon
    assert found.error > 0.01 * ours


@pytest.mark.parametrize(
    ("relation", "event"),
    [
        ("replace_one", dp_accounting.LaplaceDpEvent(3.0)),
        ("replace_one", dp_accounting.SampledWithoutReplacementDpEvent(100, 10, G(1.0))),
    ],
)
def test_an_event_without_support_has_no_second_opinion_and_says_why(
    relation: Relation, event: Any
) -> None:
    found = opinion([(event, 2)], relation=relation)
    assert (found.epsilon, found.error) == (None, None)
    assert type(event).__name__ in found.why
    assert not found.contradicts(0.0)


def test_an_epsilon_beyond_float64_has_no_second_opinion() -> None:
    assert "600" in opinion([(G(0.02), 1)], relation="zero_out").why


def test_estimates_of_ours_are_never_called_contradicted() -> None:
    found = SecondOpinion(2.0, 0.1)
    assert found.to_data(ours=1.0, certified=True)["contradicts"] is True
    assert found.to_data(ours=1.0, certified=False)["contradicts"] is False
    assert found.to_data(ours=1.95, certified=True)["contradicts"] is False
