"""Searches for a record by its gradient: they recover one that is exact, in a scale that is hidden."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from dppipe.audit.attacks.box import Box
from dppipe.audit.attacks.gradients.cosine import recover_by_direction
from dppipe.audit.attacks.gradients.distance import recover_by_distance
from dppipe.audit.attacks.gradients.inputs import raw_gradient
from dppipe.audit.attacks.gradients.knowledge import Knowledge
from dppipe.audit.attacks.gradients.searching import Search
from dppipe.audit.attacks.measures import mean_squared_error
from dppipe.lightning.objectives import Objective

BOX = Box(0.0, 1.0)


def knowledge(task="multiclass", outputs=4, *, known_target=None) -> Knowledge:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, outputs))
    loss = Objective(task, outputs).per_sample_loss
    return Knowledge(model, loss, task, outputs, (1, 4, 4), BOX, known_target)


def target_of(task):
    return {
        "multiclass": torch.tensor([2]),
        "binary": torch.tensor([1.0]),
        "regression": torch.tensor([[0.7]]),
    }[task]


RECORD = torch.rand(1, 1, 4, 4, generator=torch.Generator().manual_seed(3))
TASKS = [("multiclass", 4), ("binary", 1), ("regression", 1)]


@pytest.mark.parametrize(("task", "outputs"), TASKS)
@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_distance_recovers_a_record_whose_gradient_was_scaled(task, outputs, factor):
    known = knowledge(task, outputs)
    gradient = raw_gradient(known, (RECORD, target_of(task)))
    seen = {name: factor * part for name, part in gradient.items()}
    found = recover_by_distance(known, seen, Search(steps=200, restarts=4))
    assert mean_squared_error(found.record, RECORD[0]) < 1e-3
    if task != "regression":
        assert float(found.target) == float(target_of(task))


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_cosine_recovers_a_record_whose_gradient_was_scaled(factor):
    known = knowledge()
    gradient = raw_gradient(known, (RECORD, torch.tensor([2])))
    seen = {name: factor * part for name, part in gradient.items()}
    found = recover_by_direction(
        known, seen, Search(steps=400, restarts=2), target=torch.tensor([2])
    )
    assert mean_squared_error(found.record, RECORD[0]) < 1e-3


def test_cosine_looks_for_the_target_where_it_is_not_told():
    known = knowledge("regression", 1)
    gradient = raw_gradient(known, (RECORD, target_of("regression")))
    found = recover_by_direction(known, gradient, Search(steps=400, restarts=2))
    assert mean_squared_error(found.record, RECORD[0]) < 1e-2


def test_a_loss_of_the_users_own_is_searched_with_the_known_target():
    known = knowledge(known_target=torch.tensor([2]))
    gradient = raw_gradient(known, (RECORD, torch.tensor([2])))
    found = recover_by_distance(known, gradient, Search(steps=200, restarts=2))
    assert mean_squared_error(found.record, RECORD[0]) < 1e-3
    assert int(found.target) == 2


def test_the_same_seed_finds_the_same_and_the_best_start_is_kept():
    known = knowledge()
    gradient = raw_gradient(known, (RECORD, torch.tensor([2])))
    one = recover_by_distance(known, gradient, Search(steps=40, restarts=3, seed=5))
    again = recover_by_distance(known, gradient, Search(steps=40, restarts=3, seed=5))
    assert torch.equal(one.record, again.record)
    alone = [
        recover_by_distance(known, gradient, Search(steps=40, seed=5 + number)).cost
        for number in range(3)
    ]
    assert one.cost == min(alone)


@pytest.mark.parametrize("method", [recover_by_distance, recover_by_direction])
def test_the_clock_ends_a_search_and_says_so(method):
    known = knowledge()
    gradient = raw_gradient(known, (RECORD, torch.tensor([2])))
    options = {"target": torch.tensor([2])} if method is recover_by_direction else {}
    late = Search(steps=10_000, ends=time.monotonic() - 1)
    found = method(known, gradient, late, **options)
    assert not found.finished
    assert found.record.isfinite().all()


@pytest.mark.parametrize("method", [recover_by_distance, recover_by_direction])
def test_a_gradient_of_zeros_or_noise_ends_in_a_record_of_finite_numbers(method):
    known = knowledge()
    gradient = raw_gradient(known, (RECORD, torch.tensor([2])))
    options = {"target": torch.tensor([2])} if method is recover_by_direction else {}
    for scale in (0.0, 1e12):
        seen = {name: scale * torch.randn_like(part) for name, part in gradient.items()}
        found = method(known, seen, Search(steps=20), **options)
        assert found.record.isfinite().all()
        assert BOX.low <= float(found.record.min()) <= float(found.record.max()) <= BOX.high
