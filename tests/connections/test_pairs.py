"""Every two kinds of parts together, in real runs: one unit moves what is noised by what the ledger charges, at most.

Each test runs one combination twice, on data that differs in one unit, with a recorder in place of each
noise stream. The second run gets the first one's releases, so both stand at the same weights.
"""

from __future__ import annotations

import pytest
from connections.covering import all_pairs, covering_set, impossible_pairs, pairs_in
from connections.kinds import CLIPPERS, MECHANISMS, RELATIONS, SAMPLERS, SCHEDULES, Combination
from connections.planning import Planned, planned
from connections.recording import Compared, Way, compare_neighbours

ROUNDING = 1e-5
"""By how much, relative to the bound, two float32 sums may differ beyond it."""
REACHED = {"zero_out": 0.95, "add_remove": 0.95, "replace_one": 0.1}
"""What the unit moves at least, in bounds: its gradient is larger than any, and secure noise rounds it.

Under `replace_one` another unit takes its place, and another one may be picked more often.
"""
LOWERED = {"automatic", "psac", "jl", "microbatch", "adaclip", "global", "global adaptive"}
"""Clippers that scale large gradients below their bound."""
LEAST = 0.01
"""What the unit moves at least under these, in bounds."""


def by_turns() -> list[object]:
    """Return every combination in both ways; the fast tests run each in one of the two."""
    cases = []
    for number, combination in enumerate(covering_set()):
        for place, way in enumerate(("spec", "callback")):
            marks = () if place == number % 2 else pytest.mark.slow
            name = f"{combination.name}-{way}"
            cases.append(pytest.param(combination, way, marks=marks, id=name))
    return cases


@pytest.mark.parametrize(("combination", "way"), by_turns())
def test_a_unit_moves_the_sums_of_each_pair_of_kinds_by_what_is_charged(
    combination: Combination, way: Way
):
    check(combination, way)


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("clipper", CLIPPERS)
def test_a_unit_moves_the_sums_of_every_combination_by_what_is_charged(clipper, sampler, relation):
    number = 0
    for mechanism in MECHANISMS:
        for schedule in SCHEDULES:
            combination = Combination(clipper, sampler, mechanism, relation, schedule)
            if planned(combination) is not None:
                number += 1
                check(combination, "spec" if number % 2 else "callback")


def test_the_covering_set_holds_every_pair_that_can_be_combined():
    held = set().union(*map(pairs_in, covering_set()))
    assert held | impossible_pairs() == all_pairs()
    assert not held & impossible_pairs()


def check(combination: Combination, way: Way) -> None:
    """Compare a combination's two runs, and each run with its plan."""
    possible = planned(combination)
    assert possible is not None, "expected a combination that can be planned"
    compared = compare_neighbours(combination, way)
    farthest = max(compared.distances.values())
    assert len(compared.distances) == 2
    assert farthest <= 1 + ROUNDING, f"one unit moves what is noised by {farthest:.4f} bounds"
    least = LEAST if combination.clipper in LOWERED else REACHED[combination.relation]
    assert farthest >= least, f"the unit moves what is noised by {farthest:.4f} bounds only"
    check_keys(compared)
    check_rows(possible, compared, combination)


def check_keys(compared: Compared) -> None:
    """No two streams of one run have the same key."""
    for run in (compared.first, compared.second):
        assert len(set(run.keys)) == len(run.keys), "two streams of random bytes share a key"


def check_rows(possible: Planned, compared: Compared, combination: Combination) -> None:
    """Every row of the ledger says what the plan says of its step, in both runs."""
    plan = possible.plan
    for run in (compared.first, compared.second):
        assert [row["step"] for row in run.rows] == [1, 2]
        for row in run.rows:
            assert row["relation"] == combination.relation
            assert row["unit"] == ("user" if combination.sampler == "user" else "example")
            assert row["sampler"] == combination.sampler
            assert row["mechanism"] == (
                "laplace" if combination.mechanism == "laplace" else "gaussian"
            )
            assert row["sample_rate"] == plan.batch(row["step"]).sample_rate
            if combination.schedule != "filter":
                assert row["noise_multiplier"] == plan.noise_multiplier(row["step"])
    assert compared.first.rows[0]["max_grad_norm"] == compared.second.rows[0]["max_grad_norm"]
