"""What PATE's queries cost, against closed forms and the values of an independent accountant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dppipe.data import Synthetic
from dppipe.learners.pate import Pate
from dppipe.learners.teaching.data_dependent import (
    epsilon_of_votes,
    log_flip_bounds,
    query_divergences,
)
from dppipe.privacy.accountants import Basic, Pld, Rdp
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.events.sequences import Steps
from dppipe.privacy.release import PublicFacts

RELATIONS: tuple[Relation, ...] = ("zero_out", "add_remove", "replace_one")
DELTA = 1e-5


def facts_of(relation: Relation) -> PublicFacts:
    return PublicFacts(
        records=None if relation == "add_remove" else 60000,
        unit="example",
        relation=relation,
        input_shape=(5,),
        outputs=10,
        task="multiclass",
        public_inputs=9000,
    )


def events(learner: Pate, scale: float, relation: Relation) -> Steps:
    planned = learner.releases(facts_of(relation), scale=scale)
    return [(release.event, release.count) for release in planned]


def pate(queries: int, **options: Any) -> Pate:
    return Pate(queries=queries, public=Synthetic(features=5), **options)


def epsilon(learner: Pate, scale: float, relation: Relation, accountant: Any = None) -> float:
    made = (accountant or Pld()).compose(events(learner, scale, relation), relation=relation)
    return float(made.epsilon(DELTA))


GNMAX = [(100, 40.0, 1.356467), (286, 40.0, 2.435360), (1000, 100.0, 1.760057)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("queries", "sigma", "expected"), GNMAX)
def test_gaussian_votes_cost_the_same_under_every_relation(
    queries: int, sigma: float, expected: float, relation: Relation
) -> None:
    assert epsilon(pate(queries), sigma, relation) == pytest.approx(expected, abs=1e-5)


def test_gaussian_votes_by_renyi_divergences() -> None:
    assert epsilon(pate(100), 40.0, "zero_out", Rdp()) == pytest.approx(1.478116, abs=1e-5)
    for relation in RELATIONS:
        ((event, count),) = events(pate(100), 40.0, relation)
        moved = 2 if relation == "replace_one" else 1
        rho = count * (moved / event.noise_multiplier) ** 2 / 2
        assert rho == pytest.approx(100 / 40.0**2, rel=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
def test_confident_votes_are_charged_for_all_that_are_asked(relation: Relation) -> None:
    learner = pate(286, aggregator="confident_gnmax", asked=640, threshold=200.0)
    planned = events(learner, 40.0, relation)
    assert [count for _, count in planned] == [640, 286]
    moved = 2 if relation == "replace_one" else 1
    squared = 0.0
    for event, count in planned:
        squared += count * (moved / event.noise_multiplier) ** 2
    assert math.sqrt(squared) == pytest.approx(0.6212443, abs=1e-6)
    assert epsilon(learner, 40.0, relation) == pytest.approx(2.542602, abs=1e-5)


SIGMAS = [(1.0, 100, 52.75910), (1.0, 400, 105.51820), (3.0, 100, 19.66596), (3.0, 400, 39.33192)]


@pytest.mark.parametrize(("budget", "queries", "sigma"), SIGMAS)
def test_the_noise_that_lands_on_a_budget(budget: float, queries: int, sigma: float) -> None:
    learner = pate(queries)
    assert epsilon(learner, sigma - 1e-4, "zero_out") > budget
    assert epsilon(learner, sigma + 1e-4, "zero_out") < budget
    found = calibrate(
        Pld(),
        lambda scale: events(learner, scale, "zero_out"),
        budget=Budget(epsilon=budget, delta=DELTA),
    )
    assert sigma - 1e-4 <= found.scale <= sigma * (1 + 1e-4)


@pytest.mark.parametrize("relation", RELATIONS)
def test_laplace_votes_cost_two_over_their_scale_each(relation: Relation) -> None:
    learner = pate(30, aggregator="lnmax")
    assert epsilon(learner, 60.0, relation, Basic()) == pytest.approx(30 * 2 / 60.0, rel=1e-9)


GIVEN_VOTES = [
    ((200.0, 30.0, 20.0), -6.185839, {2: 5.450646e-4, 8: 6.810356e-4}),
    ((5.0, 240.0, 5.0), -10.330116, {2: 1.137896e-5, 20: 4.075745e-5}),
]


@pytest.mark.parametrize(("votes", "log_q", "divergences"), GIVEN_VOTES)
def test_what_given_votes_cost(
    votes: tuple[float, ...], log_q: float, divergences: dict[int, float]
) -> None:
    logs = log_flip_bounds(np.array([votes]), noise_scale=40.0)
    assert logs[0] == pytest.approx(log_q, rel=1e-4)
    for order, expected in divergences.items():
        (found,) = query_divergences(logs, noise_scale=40.0, order=order)
        assert found == pytest.approx(expected, rel=1e-4)


def test_given_votes_cost_at_most_what_is_charged() -> None:
    # Where all classes are level, and where one has all votes.
    for votes in ([3.0, 3.0, 3.0], [250.0, 0.0, 0.0]):
        logs = log_flip_bounds(np.array([votes]), noise_scale=40.0)
        assert 0 <= query_divergences(logs, noise_scale=40.0, order=8.0)[0] <= 8 / 40.0**2
    unsure = np.full((100, 3), 83.0)
    given: dict[str, Any] = {"noise_scale": 40.0, "rho": 0.0, "delta": DELTA}
    assert epsilon_of_votes(unsure, **given) == pytest.approx(1.478116, abs=2e-3)
    sure = np.tile([250.0, 0.0, 0.0], (100, 1))
    assert epsilon_of_votes(sure, **given) < 0.5
