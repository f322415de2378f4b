"""The estimates of blocks: how far one unit moves their mean, for every relation and unit."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.aggregated import (
    LOGISTIC,
    RIDGE,
    SGD,
    Worst,
    facts_of,
    job_of,
    learner_of,
    listed,
    mean_of,
    network,
    record,
)
from listed_records import Listed
from torch import Tensor, nn

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.learners.aggregation.estimates import estimate_or_origin, table_of
from dppipe.learners.aggregation.network_inner import NetworkEstimator
from dppipe.learners.blocks.assignment import block_numbers
from dppipe.learners.blocks.reading import Block, read_blocks
from dppipe.learners.subsample_aggregate import SubsampleAggregate
from dppipe.privacy.release import PublicFacts

RELATIONS = ["zero_out", "add_remove", "replace_one"]
UNITS = ["example", "user"]
BROKEN = ValueError("broken")


def allowed(learner: SubsampleAggregate, facts: PublicFacts) -> float:
    """Return how far the relation may move the mean, by what accountants charge."""
    doubled = 2 if facts.relation == "replace_one" else 1
    return doubled * learner.sensitivity(facts)


def neighbours(
    rows: list[Any], users: list[int], other: Any, facts: PublicFacts
) -> tuple[Listed, Listed]:
    """Return a dataset, and one in which the first unit is absent, nothing, or another."""
    by_users = facts.unit == "user"
    owners = users if by_users else list(range(len(rows)))
    own = [owner == owners[0] for owner in owners]
    if facts.relation == "add_remove":
        kept = [place for place, mine in enumerate(own) if not mine]
        second = [rows[place] for place in kept]
        left = [owners[place] for place in kept]
    else:
        changed = BROKEN if facts.relation == "zero_out" else other
        second = [changed if mine else row for row, mine in zip(rows, own, strict=True)]
        left = owners
    if not by_users:
        return Listed(rows), Listed(second)
    return listed(rows, owners), listed(second, left)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("blocks", [2, 3, 7])
def test_the_worst_estimator_moves_the_mean_by_what_is_charged_and_no_more(
    relation: str, unit: str, blocks: int
) -> None:
    facts = facts_of(relation, unit=unit)
    learner = learner_of(blocks=blocks, radius=1.7)
    rows = [record(1000.0, 0.0), *(record(0.1 * place, 1.0) for place in range(1, 12))]
    users = [place % 6 for place in range(12)]
    moved = []
    for dataset in neighbours(rows, users, record(0.0, 0.0), facts):
        value = learner.bounded_mean(job_of(learner, dataset, facts), Worst()).value
        assert float(torch.linalg.vector_norm(value)) <= 1.7
        moved.append(value)
    distance = float(torch.linalg.vector_norm(moved[0] - moved[1]))
    across = 2 * 1.7 / blocks
    # An empty block stands at the origin: with one record less, half of the way.
    assert any(distance == pytest.approx(share * across, rel=1e-9) for share in (0.5, 1.0))
    assert distance <= allowed(learner, facts)
    assert allowed(learner, facts) == pytest.approx(across, rel=1e-9)


def test_the_worst_move_is_reached_where_blocks_hold_several_records() -> None:
    for relation in RELATIONS:
        facts = facts_of(relation)
        learner = learner_of(blocks=2)
        rows = [record(1000.0, 0.0), *(record(0.1 * place, 1.0) for place in range(1, 30))]
        first, second = neighbours(rows, [], record(0.0, 0.0), facts)
        values = [
            learner.bounded_mean(job_of(learner, each, facts), Worst()).value
            for each in (first, second)
        ]
        distance = float(torch.linalg.vector_norm(values[0] - values[1]))
        assert distance == pytest.approx(2 * 2.0 / 2, rel=1e-9)
        assert distance <= allowed(learner, facts)


numbers = st.sampled_from(
    [0.0, 1.0, -1.0, 0.3, 1e-300, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan]
)
rows_of = st.lists(
    st.one_of(
        st.builds(record, numbers, numbers, st.sampled_from([0, 1, 2, 7, -1, 0.5, math.nan])),
        st.just(BROKEN),
        st.just((torch.zeros(5), 0)),
        st.just((object(), 0)),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("inner", [RIDGE, LOGISTIC, SGD], ids=lambda inner: inner["kind"])
@settings(deadline=None, max_examples=8)
@given(rows=rows_of, other=rows_of, data=st.data())
def test_no_unit_moves_the_mean_by_more_than_is_charged(
    relation: str, unit: str, inner: Any, rows: list[Any], other: list[Any], data: Any
) -> None:
    facts = facts_of(relation, unit=unit)
    learner = learner_of(inner=inner, radius=0.05)
    users = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    means = [mean_of(learner, each, facts) for each in neighbours(rows, users, other[0], facts)]
    distance = float(torch.linalg.vector_norm(means[0] - means[1]))
    assert distance <= allowed(learner, facts)


FAILURES: dict[str, Any] = {
    "raises": lambda block: 1 / 0,
    "ends": lambda block: exit(3),
    "not finite": lambda block: torch.tensor([0.0, math.nan, 0.0]),
    "infinite": lambda block: torch.tensor([0.0, math.inf, 0.0]),
    "another shape": lambda block: torch.zeros(4),
    "no tensor": lambda block: None,
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_block_that_fails_stands_at_the_origin_and_counts_in_the_mean(
    failure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(block: Block) -> Tensor:
        print("seen")
        if block.number == 1:
            found: Tensor = FAILURES[failure](block)
            return found
        return torch.tensor([1.0, 0.0, 0.0])

    facts = facts_of()
    learner = learner_of(blocks=4)
    rows = [record(0.1 * place, 1.0) for place in range(12)]
    mean = learner.bounded_mean(job_of(learner, Listed(rows), facts), Worst(say=say))
    assert mean.value.tolist() == [0.75, 0.0, 0.0]
    assert mean.over == 1.0
    assert capsys.readouterr().out == ""


def test_blocks_without_records_stand_at_the_origin() -> None:
    facts = facts_of("add_remove")
    learner = learner_of(blocks=50)
    job = job_of(learner, Listed([record(1.0, 1.0)]), facts)
    estimates = table_of(job, learner.estimator(job), blocks=50)
    assert int((estimates.abs().sum(1) > 0).sum()) == 1
    nothing = mean_of(learner, Listed([]), facts)
    assert nothing.abs().max() == 0


def test_without_noise_the_mean_is_that_of_the_solutions_of_the_blocks() -> None:
    facts = facts_of()
    learner = learner_of(radius=1e6, inner={"kind": "ridge", "regularization": 0.5})
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(12, 2)) * 0.3
    labels = generator.integers(0, 3, size=12)
    dataset = Listed([record(*row, int(label)) for row, label in zip(inputs, labels, strict=True)])
    job = job_of(learner, dataset, facts)
    blocks = block_numbers(dataset, facts, count=4)
    solutions = []
    for number in range(4):
        x = inputs[blocks == number]
        x = x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
        x = np.hstack([x * math.sqrt(0.5), np.full((len(x), 1), math.sqrt(0.5))])
        y = np.eye(3)[labels[blocks == number]]
        solutions.append(np.linalg.solve(x.T @ x + 0.5 * np.eye(3), x.T @ y).T.reshape(-1))
    mean = learner.bounded_mean(job, learner.estimator(job)).value
    assert mean.numpy() == pytest.approx(np.mean(solutions, axis=0), abs=1e-12)


def test_a_logistic_estimate_minimises_the_losses_of_its_block() -> None:
    facts = facts_of()
    learner = learner_of(inner=LOGISTIC)
    dataset = Listed([record(0.2 * place, 1.0 - place, place % 3) for place in range(12)])
    job = job_of(learner, dataset, facts)
    estimator: Any = learner.estimator(job)
    (first, *_) = read_blocks(job.records, facts, count=4)
    weights = estimator.estimate(first).reshape(3, 3).requires_grad_()
    lengths = first.inputs.norm(dim=1, keepdim=True).clamp_min(1.0)
    constant = torch.full((len(lengths), 1), math.sqrt(0.5), dtype=torch.float64)
    rows = torch.cat([first.inputs / lengths * math.sqrt(0.5), constant], 1)
    loss = nn.functional.cross_entropy(rows @ weights.T, first.targets, reduction="sum")
    (loss + 0.25 * weights.square().sum()).backward()
    assert weights.grad is not None
    assert float(weights.grad.norm()) <= 1.1e-6


def some_rows() -> list[Any]:
    return [record(0.2 * place, 1.0 - place, place % 3) for place in range(12)]


@pytest.mark.parametrize("inner", [RIDGE, LOGISTIC, SGD], ids=lambda inner: inner["kind"])
def test_an_estimate_is_that_of_its_block_alone(inner: Any) -> None:
    facts = facts_of()
    learner = learner_of(inner=inner)
    job = job_of(learner, Listed(some_rows()), facts)
    estimator = learner.estimator(job)
    before = copy.deepcopy(job.module.state_dict())
    table = table_of(job, estimator, blocks=4)
    random_state = torch.get_rng_state()
    blocks = list(read_blocks(job.records, facts, count=4))
    for block in reversed(blocks):
        torch.manual_seed(block.number)
        assert torch.equal(estimate_or_origin(estimator, block), table[block.number])
    torch.set_rng_state(random_state)
    after = job.module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in job.module.parameters())
    # Another record in one block leaves the estimates of all others as they are, to the last bit.
    rows = some_rows()
    rows[0] = record(9.0, 9.0, 2)
    other = table_of(job_of(learner, Listed(rows), facts), estimator, blocks=4)
    same = [torch.equal(old, new) for old, new in zip(table, other, strict=True)]
    assert same.count(False) == 1


class Dropping(nn.Module):
    """A network with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.dropout(self.layer(inputs), training=self.training)


def test_training_a_network_equals_plain_steps_from_the_first_weights() -> None:
    facts = facts_of()
    learner = learner_of(inner=SGD | {"momentum": 0.5, "weight_decay": 0.1, "batch_size": 100})
    job = job_of(learner, Listed(some_rows()), facts)
    estimator = learner.estimator(job)
    for block in read_blocks(job.records, facts, count=4):
        plain = network()
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(plain(block.inputs.float()), block.targets).backward()
            optimizer.step()
        moved = [
            (after.detach() - before.detach()).reshape(-1)
            for after, before in zip(plain.parameters(), network().parameters(), strict=True)
        ]
        assert torch.allclose(estimator.estimate(block).float(), torch.cat(moved), atol=1e-6)


def test_random_layers_draw_by_the_public_seed_and_the_block() -> None:
    torch.manual_seed(0)
    made = Dropping()
    job = job_of(learner_of(inner=SGD), Listed(some_rows()), facts_of(), made)
    first, second, *_ = read_blocks(job.records, job.facts, count=4)
    estimator = NetworkEstimator(learner_of(inner=SGD).inner, job.facts, made)  # type: ignore[arg-type]
    again = estimator.estimate(first)
    assert torch.equal(again, estimator.estimate(first))
    assert not torch.equal(again, estimator.estimate(first._replace(number=second.number)))


def test_frozen_weights_stay_and_the_released_ones_are_moved() -> None:
    made = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
    made[0].requires_grad_(False)
    before = copy.deepcopy(made.state_dict())
    learner = learner_of(inner=SGD)
    job = job_of(learner, Listed(some_rows()), facts_of(), made)
    estimator = learner.estimator(job)
    assert estimator.size == 15
    estimator.set_weights(torch.arange(15, dtype=torch.float64))
    after = made.state_dict()
    assert torch.equal(after["0.weight"], before["0.weight"])
    assert torch.allclose(after["2.bias"], before["2.bias"] + torch.tensor([12.0, 13.0, 14.0]))


class Remembering(nn.Module):
    """Keeps what it has seen in a list that all copies share."""

    seen: list[float] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        type(self).seen.append(float(inputs.sum().detach()))
        found: Tensor = self.layer(inputs + sum(type(self).seen))
        return found


class Raising(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        raise KeyError("no")


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "batch statistics": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
        PrivacyRefusal,
        "'1.running_mean', which it changes",
    ),
    "shared state": (Remembering, PrivacyRefusal, "keeps nothing between blocks"),
    "an error": (lambda: Raising(2, 3), UsageError, "can be trained on made-up records"),
    "nothing to train": (
        lambda: nn.Linear(2, 3).requires_grad_(False),
        UsageError,
        "expected parameters to train",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_networks_that_share_state_between_blocks_are_refused(case: str) -> None:
    make, error, message = REFUSED[case]
    learner = learner_of(inner=SGD)
    job = job_of(learner, Listed(some_rows()), facts_of(), make())
    with pytest.raises(error, match=message):
        learner.estimator(job)
