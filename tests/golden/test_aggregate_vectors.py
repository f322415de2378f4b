"""Subsample and aggregate: the noise of a mean and of medians, against closed forms."""

from __future__ import annotations

import math
from typing import Any

import pytest
from learners.aggregated import facts_of, learner_of

from dppipe.planning.release_plan import LearnerParts, plan_releases
from dppipe.planning.stated import DEFAULT_FACTS
from dppipe.privacy.accountants import Basic, Gdp, Pld, Zcdp
from dppipe.privacy.budget import Budget, Relation
from dppipe.privacy.gaussian import gaussian_epsilon


def planned(relation: Relation, accountant: Any, **options: Any) -> Any:
    learner = learner_of(blocks=100, radius=1.0, **options)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    parts = LearnerParts(learner, accountant, budget, "example")
    records = None if relation == "add_remove" else 1000
    facts = facts_of(relation, records=records)
    plan = plan_releases(parts, facts, name="t", learner=learner.kind, **DEFAULT_FACTS)
    (release,) = plan.releases
    return release


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
@pytest.mark.parametrize("accountant", [Pld(), Gdp()], ids=lambda made: made.kind)
def test_the_noise_of_a_mean_is_the_same_under_every_relation(
    relation: Relation, accountant: Any
) -> None:
    release = planned(relation, accountant)
    # A scale is rounded up to five digits: 1e-6 below, 2e-5 of 0.0746126 above.
    assert 0.0746126 - 1e-6 <= release.facts["noise_std"] <= 0.0746126 * (1 + 1e-4)
    z = release.event["noise_multiplier"]
    doubled = 2 if relation == "replace_one" else 1
    assert release.facts["noise_std"] == pytest.approx(z * 2 / 100 / doubled, rel=1e-9)
    assert gaussian_epsilon(z / doubled, 1e-5) == pytest.approx(1.0, abs=1e-4)


def test_a_plan_says_how_many_blocks_suit_estimators_without_bias() -> None:
    release = planned("zero_out", Pld())
    assert release.facts["records_per_block"] == 10
    assert release.facts["blocks_for_unbiased_estimators"] == round(math.sqrt(1000))
    secret = planned("add_remove", Pld())
    assert "records_per_block" not in secret.facts
    assert "blocks_for_unbiased_estimators" not in secret.facts


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace_one"])
def test_medians_are_charged_one_by_one_and_nothing_is_doubled(relation: Relation) -> None:
    release = planned(relation, Basic(), aggregate="median")
    assert release.count == 9
    assert release.event["epsilon"] == pytest.approx(1 / 9, rel=1e-4)
    composed = planned(relation, Zcdp(), aggregate="median")
    rho = 9 * composed.event["epsilon"] ** 2 / 8
    # zCDP of rho is (rho + 2 sqrt(rho ln(1/delta)), delta)-private; the accountant is tighter.
    assert rho + 2 * math.sqrt(rho * math.log(1e5)) >= 1.0
    assert composed.event["epsilon"] > 1.4 * release.event["epsilon"]


def test_a_plan_says_where_noise_drowns_the_medians() -> None:
    few = planned("zero_out", Basic(), aggregate="median", coordinates=1)
    assert few.facts["rank_error"] == pytest.approx(2.0, rel=1e-4)
    assert "warning" not in few.facts
    many = planned("zero_out", Basic(), aggregate="median", coordinates=1000)
    assert many.facts["rank_error"] == pytest.approx(2000, rel=1e-4)
    assert "take a mean" in many.facts["warning"]
