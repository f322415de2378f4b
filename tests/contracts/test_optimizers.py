"""What every optimizer and learning-rate schedule keeps, over all that the registry finds."""

from __future__ import annotations

import copy
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
ELSEWHERE = {"schedule", "averaging"}
"""Options that the torch optimizer itself doesn't take."""


def make_optimizer(kind: str, **options: object) -> Optimizer:
    made = Registry().load("optimizer", kind).from_data(options)
    assert isinstance(made, Optimizer)
    return made


def make_schedule(kind: str, **options: object) -> LRSchedule:
    made = Registry().load("schedule", kind).from_data(options)
    assert isinstance(made, LRSchedule)
    return made


def take_steps(optimizer: TorchOptimizer, parameter: nn.Parameter, *, steps: int) -> None:
    for _ in range(steps):
        parameter.grad = 2 * parameter.detach()
        optimizer.step()


def change(value: object) -> object:
    """Give another valid value of an option: a default that never reaches torch would go unseen."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(change(each) for each in value)
    return value / 2 if value else 0.25  # type: ignore[operator]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_optimizer_goes_downhill(kind: str) -> None:
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    take_steps(make_optimizer(kind, lr=0.05).build([parameter]), parameter, steps=50)
    assert parameter.square().sum() < 0.9 * 13


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_optimizer_is_a_torch_optimizer_and_takes_a_generator_of_parameters(
    kind: str,
) -> None:
    module = nn.Linear(2, 2)
    optimizer = make_optimizer(kind).build(parameter for parameter in module.parameters())
    assert isinstance(optimizer, TorchOptimizer)
    assert type(optimizer).__module__.startswith("torch.optim") or kind == "debiased_momentum"
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
def test_a_saved_state_goes_on_where_it_stopped(kind: str) -> None:
    made = make_optimizer(kind)
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = made.build([parameter])
    take_steps(optimizer, parameter, steps=3)
    other = nn.Parameter(parameter.detach().clone())
    resumed = made.build([other])
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    take_steps(optimizer, parameter, steps=2)
    take_steps(resumed, other, steps=2)
    assert torch.equal(parameter, other)


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


@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_sets_the_rate_of_each_step_and_survives_a_restart(kind: str) -> None:
    schedule = make_schedule(kind, warmup=0.3)
    optimizer = make_optimizer("sgd", lr=0.5).build([nn.Parameter(torch.zeros(1))])
    scheduler = schedule.build(optimizer, 10)
    for step in range(10):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(
            0.5 * schedule.factor_at(step, steps=10)
        )
        optimizer.step()
        scheduler.step()
        saved = scheduler.state_dict(), optimizer.state_dict()
        optimizer = make_optimizer("sgd", lr=0.5).build([nn.Parameter(torch.zeros(1))])
        scheduler = schedule.build(optimizer, 10)
        scheduler.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])


@pytest.mark.parametrize("kind", SCHEDULES)
def test_schedules_survive_being_written_and_read(kind: str) -> None:
    made = make_schedule(kind, warmup=0.25)
    written = json.loads(json.dumps(made.to_data()))
    assert written.pop("kind") == kind
    assert type(made).from_data(written) == made
