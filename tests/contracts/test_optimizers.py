"""What built-in optimizers and learning-rate schedules keep beyond the checks of `test_conformance.py`."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import Optimizer as TorchOptimizer

from dppipe.optim.base import Optimizer
from dppipe.optim.schedules.base import LRSchedule
from dppipe.spec.kinds.registry import Registry

OPTIMIZERS = Registry().kinds("optimizer")
SCHEDULES = Registry().kinds("schedule")
ELSEWHERE = {"schedule", "averaging", "project"}
"""Options that the torch optimizer itself doesn't take."""
OWN = {"adam_bc", "debiased_momentum"}
"""Kinds whose torch optimizer is dppipe's own."""


def make_optimizer(kind: str, **options: object) -> Optimizer:
    made = Registry().load("optimizer", kind).from_data(options)
    assert isinstance(made, Optimizer)
    return made


def make_schedule(kind: str, **options: object) -> LRSchedule:
    made = Registry().load("schedule", kind).from_data(options)
    assert isinstance(made, LRSchedule)
    return made


def change(value: object) -> object:
    """Return another valid value of an option: a default that never reaches torch would go unseen."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(change(each) for each in value)
    return value / 2 if value else 0.25  # type: ignore[operator]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_optimizer_is_a_torch_optimizer_and_takes_a_generator_of_parameters(
    kind: str,
) -> None:
    module = nn.Linear(2, 2)
    optimizer = make_optimizer(kind).build(parameter for parameter in module.parameters())
    assert isinstance(optimizer, TorchOptimizer)
    assert type(optimizer).__module__.startswith("torch.optim") or kind in OWN
    assert [id(p) for group in optimizer.param_groups for p in group["params"]] == [
        id(p) for p in module.parameters()
    ]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_option_reaches_the_optimizer(kind: str) -> None:
    changed = {
        name: change(value)
        for name, value in make_optimizer(kind).model_dump(exclude=ELSEWHERE).items()
    }
    made = make_optimizer(kind, **changed)
    (group,) = made.build([nn.Parameter(torch.zeros(1))]).param_groups
    options = made.model_dump(exclude=ELSEWHERE)
    assert {name: group[name] for name in options} == options


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_options_survive_being_written_and_read(kind: str) -> None:
    made = make_optimizer(kind, schedule={"kind": "cosine", "warmup": 0.1})
    written = json.loads(json.dumps(made.to_data()))
    assert written.pop("kind") == kind
    assert written["schedule"]["kind"] == "cosine"
    assert type(made).from_data(written) == made
    assert all(field.description for field in type(made).model_fields.values())


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_rate_is_constant_unless_a_schedule_is_named(kind: str) -> None:
    made = make_optimizer(kind)
    assert made.schedule.kind == "constant"
    assert {made.schedule.factor_at(step, steps=9) for step in range(9)} == {1.0}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_with_project_no_update_leaves_the_ball_and_within_it_nothing_changes(kind: str) -> None:
    torch.manual_seed(0)
    start = torch.randn(2, 3)
    drawn = torch.randn(8, 2, 3)
    moved = {}
    farthest = 0.0
    for radius in (0.5, 1e6, None):
        layer = nn.ParameterList([nn.Parameter(row.clone()) for row in start])
        ball = {} if radius is None else {"project": {"radius": radius}}
        optimizer = make_optimizer(kind, lr=0.2, **ball).prepare(iter(layer))
        for gradients in drawn:
            for parameter, gradient in zip(layer, gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
            weights = torch.cat([parameter.detach() for parameter in layer])
            assert weights.norm() <= (radius or 1e6) * (1 + 1e-6)
            farthest = max(farthest, weights.norm().item() if radius == 0.5 else 0.0)
        moved[radius] = weights
    assert torch.equal(moved[1e6], moved[None])
    assert farthest == pytest.approx(0.5)  # it was reached, by all parameters together


@pytest.mark.parametrize("kind", SCHEDULES)
@settings(deadline=None)
@given(steps=st.integers(1, 300), warmup=st.floats(0, 0.99))
def test_no_charged_step_has_a_rate_of_nothing(kind: str, steps: int, warmup: float) -> None:
    schedule = make_schedule(kind, warmup=warmup)
    factors = [schedule.factor_at(step, steps=steps) for step in range(steps)]
    assert all(0 < factor <= 1 for factor in factors)
    rising = round(warmup * steps)
    assert factors[:rising] == sorted(factors[:rising])
    assert rising >= steps or factors[rising] == 1.0
