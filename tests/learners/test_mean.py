"""The mean of clipped records: how far one unit moves it, what it is divided by, and its noise."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.small_learners import (
    RECORDS,
    WIDTH,
    dataset_of,
    facts_of,
    fitted,
    owned,
    readable,
    write_spec,
)
from learners.test_perturbed_runs import dppipe, is_likely
from torch.utils.data import Dataset

import dppipe as package
from dppipe.learners.mean import Mean
from dppipe.runs.verify import verify_ledger

NUMBERS = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 1e308, -1e308, 1e-308, 5e-324, 1e9, math.nan, math.inf]),
)
RECORD = st.tuples(st.lists(NUMBERS, min_size=2, max_size=2), st.sampled_from([0.0, 1.0, 9.0]))
GONE = ([math.nan, 0.0], 0.0)
NORMS = {"gaussian": 2, "laplace": 1}
SLACK = 1 + 2.0**-40


def total_of(learner: Mean, records: list[Any], users: list[int] | None = None) -> torch.Tensor:
    unit = "example" if users is None else "user"
    dataset = dataset_of(records)
    facts = facts_of(unit=unit)
    data = dataset if users is None else owned(dataset, users)
    _, bounded = fitted(learner, facts, data, learner.module(facts))
    assert bounded.sensitivity >= learner.max_norm
    return bounded.value


def moved(one: torch.Tensor, other: torch.Tensor, learner: Mean) -> float:
    return float(torch.linalg.vector_norm(one - other, NORMS[learner.mechanism]))


@pytest.mark.parametrize("mechanism", NORMS)
def test_one_record_moves_the_sum_by_at_most_the_bound(mechanism: Any) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(RECORD, max_size=6), RECORD, RECORD, st.sampled_from([1e-6, 0.7, 1e6]))
    def check(records: list[Any], one: Any, other: Any, bound: float) -> None:
        learner = Mean(max_norm=bound, mechanism=mechanism)
        having = total_of(learner, [*records, one])
        zeroed = total_of(learner, [*records, GONE])
        replaced = total_of(learner, [*records, other])
        if records:
            assert torch.equal(total_of(learner, records), zeroed)  # the same as one less
        assert moved(having, zeroed, learner) <= bound * SLACK
        assert moved(having, replaced, learner) <= 2 * bound * SLACK

    check()


@pytest.mark.parametrize("mechanism", NORMS)
def test_one_user_moves_the_sum_by_at_most_the_bound(mechanism: Any) -> None:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(RECORD, min_size=1, max_size=4), st.lists(RECORD, min_size=1, max_size=4))
    def check(others: list[Any], own: list[Any]) -> None:
        learner = Mean(max_norm=0.7, mechanism=mechanism)
        users = [0] * len(others) + [1] * len(own)
        having = total_of(learner, [*others, *own], users)
        without = total_of(learner, others, [0] * len(others))
        assert moved(having, without, learner) <= 0.7 * SLACK

    check()


def test_a_user_counts_by_the_average_of_the_finite_records() -> None:
    records = [([3.0, 0.0], 0.0), ([1.0, 2.0], 0.0), ([math.inf, 2.0], 0.0), ([5.0, 5.0], 1.0)]
    total = total_of(Mean(max_norm=100.0), records, [0, 0, 0, 1])
    assert total.tolist() == [7.0, 6.0]


def test_longer_records_keep_their_direction() -> None:
    far = dataset_of([([30.0, 40.0], 0.0)])
    learner = Mean(max_norm=5.0)
    _, two = fitted(learner, facts_of(), far, learner.module(facts_of()))
    assert two.value.tolist() == pytest.approx([3.0, 4.0])
    learner = Mean(max_norm=7.0, mechanism="laplace")
    _, one = fitted(learner, facts_of(), far, learner.module(facts_of()))
    assert one.value.tolist() == pytest.approx([3.0, 4.0])


def test_the_divisor_is_public() -> None:
    learner = Mean(expected_records=50.0)
    secret = facts_of(records=None, relation="add_remove")
    few = dataset_of([([0.3, 0.4], 0.0)] * 3)
    trained, bounded = fitted(learner, secret, few, learner.module(secret))
    assert bounded.over == 50.0
    assert trained.mean.tolist() == pytest.approx([3 * 0.3 / 50, 3 * 0.4 / 50])
    _, counted = fitted(Mean(), facts_of(records=7), few, learner.module(secret))
    assert counted.over == 7.0


def test_without_noise_it_is_the_mean_of_the_records(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "mean")
    run = tmp_path / "run"
    words = ("--set", "budget=none", "--set", "learner.max_norm=100")
    done = dppipe("run", str(path), "--run-dir", str(run), *words)
    assert done.exit_code == 0, done.output
    inputs = np.load(tmp_path / "records.npz")["x"].astype(np.float64)
    found: Any = package.load_model(run)
    assert found.mean.numpy() == pytest.approx(inputs.mean(0), rel=1e-12)


@pytest.mark.parametrize("mechanism", NORMS)
@pytest.mark.parametrize("relation", ["zero_out", "add_remove"])
def test_the_noise_is_as_large_as_was_charged(
    tmp_path: Path, mechanism: str, relation: str
) -> None:
    # Five values of noise; a false alarm in 10^9 runs.
    path = write_spec(tmp_path, "mean")
    if relation == "add_remove":
        path.write_text(path.read_text().replace("records: 300, ", ""))
    changes = [f"learner.mechanism={mechanism}", f"budget.relation={relation}"]
    changes += ["learner.expected_records=250"] * (relation == "add_remove")
    words = [word for change in changes for word in ("--set", change)]
    run = tmp_path / "run"
    done = dppipe("run", str(path), "--run-dir", str(run), *words)
    assert done.exit_code == 0, done.output
    (row,) = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    z = row["event"]["noise_multiplier"]
    inputs = torch.from_numpy(np.load(tmp_path / "records.npz")["x"]).double()
    lengths = torch.linalg.vector_norm(inputs, NORMS[mechanism], dim=1, keepdim=True)
    exact = (inputs * (2.0 / lengths).clamp(max=1)).sum(0)
    found: Any = package.load_model(run)
    noise = (found.mean * (RECORDS if relation == "zero_out" else 250) - exact) / (2.0 * z)
    if mechanism == "gaussian":
        assert is_likely(float((noise**2).sum()), WIDTH)
    else:  # twice a sum of exponential values is one of squares
        assert is_likely(2 * float(noise.abs().sum()), 2 * WIDTH)
    assert verify_ledger(run).intact
    statement = json.loads((run / "privacy.json").read_text())
    assert ("Laplace" in statement["noise_level"]) == (mechanism == "laplace")


def test_a_replaced_record_gets_twice_the_noise(tmp_path: Path) -> None:
    path = write_spec(tmp_path, "mean")
    found = []
    for relation in ("zero_out", "replace_one"):
        done = dppipe("plan", str(path), "--set", f"budget.relation={relation}", "--json")
        (release,) = json.loads(done.output)["releases"]
        found.append(release["event"]["noise_multiplier"])
    assert found[1] == pytest.approx(2 * found[0], rel=1e-3)


REFUSED = [
    (["learner.expected_records=10"], "learner.expected_records: expected nothing, got 10"),
    (["budget.relation=add_remove", "data.records=null"], "expected a number to divide the sum by"),
    (["model=logistic"], "model: expected no model, as learner 'mean' takes none"),
    (["learner.max_norm=0"], "learner.max_norm"),
    (["learner.noise_multiplier=0.1"], "expected releases that cost at most epsilon 1, got 0.1"),
    (["learner.mechanism=uniform"], "learner.mechanism"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_does_not_apply_is_an_error(tmp_path: Path, changes: list[str], message: str) -> None:
    path = write_spec(tmp_path, "mean")
    words = [word for change in changes for word in ("--set", change)]
    done = dppipe("plan", str(path), *words)
    assert done.exit_code in (2, 3), done.output
    assert message in " ".join(done.output.split())


class Augmented(Dataset[Any]):
    """Adds a number to each record that a global generator draws."""

    def __init__(self, records: list[float], draw: Callable[[], float]) -> None:
        self.records = records
        self.draw = draw

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([self.records[index] + self.draw()]), 0


@pytest.mark.parametrize("draw", [lambda: float(torch.rand(())), np.random.rand, random.random])
def test_what_is_drawn_for_a_record_does_not_follow_from_others(draw: Any) -> None:
    def inputs(*records: float) -> list[float]:
        return [float(unit.inputs) for unit in readable(Augmented([*records], draw)).units()]

    assert inputs(1.0, 2.0, 3.0)[1:] == inputs(2.0, 3.0)
