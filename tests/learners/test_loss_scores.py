"""Scores of candidates: one unit lowers each by its own clamped loss, whatever the records."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.small_learners import dataset_of, facts_of, owned, readable
from learners.test_mean import GONE, RECORD
from torch import Tensor, nn
from torch.nn import functional as F

from dppipe.learners.selecting.loss_scores import loss_scores
from dppipe.learners.selecting.loss_scores import record_loss as loss_of_record


def linear(*weights: float) -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(2, 1))
    network.load_state_dict({"1.weight": torch.tensor([weights]), "1.bias": torch.tensor([0.1])})
    return network.eval()


class Raises(nn.Module):
    """Raises on some records, and has no number for others."""

    def forward(self, inputs: Tensor) -> Tensor:
        (one,) = inputs.tolist()
        if one[0] > 1:
            raise ValueError(f"a record of {one}")
        return inputs.sum(1, keepdim=True) * (math.nan if one[1] > 1 else 1.0)


class Remembers(nn.Module):
    """Adds up what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.calls: list[float] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen += inputs.sum()
        self.calls.append(float(self.seen))
        return inputs[:, :1] + self.seen + len(self.calls)


NETWORKS = [linear(1.0, -2.0), linear(1e30, 1e30), linear(0.0, 0.0), Raises(), Remembers()]
BOUNDS = [1e-6, 0.3, 1.0, 1e6]


def scores_of(records: list[Any], bound: float, users: list[int] | None = None) -> Tensor:
    dataset = dataset_of(records)
    unit = "example" if users is None else "user"
    data = readable(dataset if users is None else owned(dataset, users), by_users=users is not None)
    return loss_scores(NETWORKS, data, facts_of(unit=unit), loss_bound=bound)


def check_lowered(having: Tensor, without: Tensor, bound: float) -> None:
    """Check in exact numbers that all scores went down, by at most the bound."""
    for more, less in zip(having.tolist(), without.tolist(), strict=True):
        assert 0 <= less - more <= bound


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, max_size=6), RECORD, st.integers(0, 6), st.sampled_from(BOUNDS))
def test_one_record_lowers_every_score_by_at_most_the_bound(
    records: list[Any], one: Any, place: int, bound: float
) -> None:
    before, after = records[:place], records[place:]
    having = scores_of([*before, one, *after], bound)
    zeroed = scores_of([*before, GONE, *after], bound)
    check_lowered(having, zeroed, bound)
    if records:
        assert torch.equal(scores_of(records, bound), zeroed)  # the same bits as one less
    again = scores_of([*before, one, *after], bound)
    assert torch.equal(again, having)


@settings(max_examples=40, deadline=None)
@given(st.lists(RECORD, min_size=1, max_size=4), RECORD, RECORD, st.sampled_from(BOUNDS))
def test_a_replaced_record_moves_one_score_against_another_by_at_most_twice_the_bound(
    records: list[Any], one: Any, other: Any, bound: float
) -> None:
    change = scores_of([*records, one], bound) - scores_of([*records, other], bound)
    assert float(change.max() - change.min()) <= 2 * bound
    assert float(change.abs().max()) <= bound


@settings(max_examples=60, deadline=None)
@given(
    st.lists(RECORD, min_size=1, max_size=4),
    st.lists(RECORD, min_size=1, max_size=5),
    st.sampled_from(BOUNDS),
)
def test_one_user_lowers_every_score_by_at_most_the_bound(
    others: list[Any], own: list[Any], bound: float
) -> None:
    users = [0] * len(others) + [1] * len(own)
    having = scores_of([*others, *own], bound, users)
    check_lowered(having, scores_of(others, bound, [0] * len(others)), bound)


def test_a_users_loss_is_the_mean_of_the_usable_records() -> None:
    records = [([0.5, 0.5], 1.0), ([0.1, -0.4], 0.0), ([math.nan, 0.0], 0.0), ([1.0, 1.0], 9.0)]
    together = scores_of(records, 10.0, [0, 0, 0, 0])
    one, other = (scores_of([record], 10.0) for record in records[:2])
    assert together.tolist() == pytest.approx(((one + other) / 2).tolist(), abs=3e-6)


def test_each_loss_of_a_user_is_clamped_before_the_mean() -> None:
    lost = ([1.0, 1.0], 0.0)  # 2e30 by the second candidate
    right = ([1.0, 1.0], 1.0)
    found = scores_of([lost, right, right, right], 0.8, [0, 0, 0, 0])
    assert float(found[1]) == pytest.approx(-0.2, abs=1e-6)


def test_a_network_that_remembers_is_put_back_after_each_record() -> None:
    def score(*records: Any) -> float:
        network = Remembers()
        return float(
            loss_scores([network], readable(dataset_of([*records])), facts_of(), loss_bound=50.0)
        )

    first, second = ([0.5, 0.2], 1.0), ([-0.3, 0.4], 0.0)
    assert score(first, second) == score(first) + score(second)
    assert score(second, first) == score(first, second)


class Draws(nn.Module):
    """Predicts by a number that NumPy's or Python's generator draws."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.full((len(inputs), 1), self.draw())


@pytest.mark.parametrize("draw", [np.random.rand, random.random])
def test_what_a_network_draws_does_not_follow_from_other_records(draw: Any) -> None:
    def score(*records: Any) -> float:
        dataset = dataset_of([*records])
        return float(loss_scores([Draws(draw)], readable(dataset), facts_of(), loss_bound=50.0))

    first, second = ([0.5, 0.2], 1.0), ([-0.3, 0.4], 0.0)
    assert score(first, second) == score(first) + score(second)


def test_a_record_on_which_a_candidate_fails_costs_that_candidate_the_bound() -> None:
    for failing in ([2.0, 0.0], [0.0, 2.0]):
        found = scores_of([(failing, 1.0)], 0.7)
        assert -0.7 <= found[3] < -0.7 + 1e-6
        assert found[2] != found[3]
    for unusable in (GONE, ([0.3, 0.3], 9.0), ([math.inf, 0.0], 1.0)):
        assert scores_of([unusable], 0.7).tolist() == [0.0] * len(NETWORKS)


@pytest.mark.parametrize(
    ("task", "outputs", "loss"),
    [
        ("binary", 1, F.binary_cross_entropy_with_logits),
        ("multiclass", 3, F.cross_entropy),
        ("regression", 2, F.mse_loss),
    ],
)
def test_scores_are_the_losses_of_the_task(task: str, outputs: int, loss: Any) -> None:
    torch.manual_seed(0)
    network = nn.Linear(2, outputs).eval()
    inputs = torch.randn(20, 2)
    targets = torch.randint(0, max(2, outputs), (20,))
    if task == "regression":
        targets = torch.randn(20, outputs)
    dataset = torch.utils.data.TensorDataset(inputs, targets)
    facts = facts_of(task=task, outputs=outputs)
    found = loss_scores([network], readable(dataset), facts, loss_bound=100.0)
    wanted = targets[:, None].float() if task == "binary" else targets
    exact = 20 * float(loss(network(inputs), wanted).detach())
    assert float(found) == pytest.approx(-exact, rel=1e-4)
    clamped = loss_scores([network], readable(dataset), facts, loss_bound=0.25)
    each = [
        loss_of_record(network, inputs[i : i + 1], targets[i : i + 1], task=task) for i in range(20)
    ]
    assert float(clamped) == pytest.approx(-sum(min(one, 0.25) for one in each), rel=1e-5)
