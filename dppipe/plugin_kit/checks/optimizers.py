"""Optimizers: one gradient a step, nothing lost when saved, nothing undone by a gradient of any
size.
"""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import nn

from dppipe.optim.base import Optimizer
from dppipe.plugin_kit.checks.table import Fault, Remark, Trial, check_each, check_kind


def exercise(optimizer: Optimizer) -> Any:
    """Take steps along fixed gradients; equal gradients must give equal steps."""
    found = []
    for dtype in (torch.float32, torch.float64):
        parameter = nn.Parameter(torch.tensor([3.0, -2.0], dtype=dtype))
        _take_steps(optimizer.build([parameter]), parameter, steps=5)
        found.append(parameter.detach().clone())
    return found


@check_each("optimizer")
def holds_parameters(optimizer: Optimizer) -> Remark:
    """It takes a generator of parameters and holds each of them once."""
    module = nn.Linear(3, 2)
    built = optimizer.build(parameter for parameter in module.parameters())
    if not isinstance(built, torch.optim.Optimizer):
        raise Fault(
            f"expected build() to give a torch.optim.Optimizer, got {type(built).__name__}."
        )
    held = sorted(id(parameter) for group in built.param_groups for parameter in group["params"])
    if held != sorted(id(parameter) for parameter in module.parameters()):
        raise Fault(
            "expected every parameter once, got others. Pass params on as they come; a "
            "generator can be read once."
        )
    return None


@check_each("optimizer")
def one_gradient_a_step(optimizer: Optimizer) -> Remark:
    """One gradient a step, without a closure, moves the parameters."""
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    before = parameter.detach().clone()
    _take_steps(optimizer.build([parameter]), parameter, steps=2)
    if torch.equal(parameter, before):
        raise Fault("expected the parameters to move, got them as they were.")
    return None


@check_kind("optimizer")
def downhill(trial: Trial) -> Remark:
    """With `lr: 0.05`, fifty steps along the gradient go downhill."""
    if "lr" not in trial.cls.model_fields:
        return "it has no lr"
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    optimizer = cast(Optimizer, trial.made[0].model_copy(update={"lr": 0.05}))
    before = float(parameter.detach().square().sum())
    _take_steps(optimizer.build([parameter]), parameter, steps=50)
    after = float(parameter.detach().square().sum())
    if not after < 0.9 * before:
        raise Fault(f"expected less than {0.9 * before:g} after fifty steps, got {after:g}.")
    return None


@check_each("optimizer")
def any_gradient(optimizer: Optimizer) -> Remark:
    """Gradients that are 0, tiny, large or missing leave finite parameters."""
    for size in (0.0, 1e-20, 1e4):
        parameters = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
        built = optimizer.build(parameters)
        for _ in range(3):
            parameters[0].grad = torch.full((3,), size)
            parameters[1].grad = None
            built.step()
        if not all(parameter.isfinite().all() for parameter in parameters):
            raise Fault(f"expected finite parameters after gradients of {size:g}, got others.")
    return None


@check_each("optimizer")
def saved_state(optimizer: Optimizer) -> Remark:
    """A saved state goes on where it stopped."""
    parameter = nn.Parameter(torch.tensor([3.0, -2.0]))
    built = optimizer.build([parameter])
    _take_steps(built, parameter, steps=3)
    other = nn.Parameter(parameter.detach().clone())
    resumed = optimizer.build([other])
    resumed.load_state_dict(copy.deepcopy(built.state_dict()))
    _take_steps(built, parameter, steps=2)
    _take_steps(resumed, other, steps=2)
    if not torch.equal(parameter, other):
        raise Fault(
            "expected the same steps after loading the state, got others. Keep what steps "
            "need in `self.state`."
        )
    return None


@check_each("optimizer")
def schedule_acts(optimizer: Optimizer) -> Remark:
    """A learning-rate schedule acts on it."""
    built = optimizer.build([nn.Parameter(torch.ones(2))])
    if any("lr" not in group for group in built.param_groups):
        raise Fault(
            "expected `lr` in every parameter group, got none: learning-rate schedules set "
            "it there."
        )
    optimizer.schedule.build(built, steps=10)
    return None


def _take_steps(built: torch.optim.Optimizer, parameter: nn.Parameter, *, steps: int) -> None:
    for _ in range(steps):
        parameter.grad = 2 * parameter.detach()
        built.step()
