"""Every optimizer takes each group's own options, as they stand at the step."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from dppipe.optim.base import Optimizer
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.kinds.registry import built_in_kinds, load_built_in

KINDS = built_in_kinds(FAMILIES["optimizer"])
VARIANTS = [(kind, {}) for kind in KINDS] + [(kind, {"weight_decay": 0.1}) for kind in KINDS]
VARIANTS += [("sgd", {"momentum": 0.9}), ("sgd", {"momentum": 0.9, "nesterov": True})]
VARIANTS += [("rmsprop", {"momentum": 0.5}), ("debiased_momentum", {"beta": 0.5})]
STEPS = 6


def optimizer_of(kind: str, **options: Any) -> Optimizer:
    made = load_built_in(FAMILIES["optimizer"], kind).model_validate({"lr": 0.05} | options)
    assert isinstance(made, Optimizer)
    return made


def weights(seed: int) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(2, 2, generator=generator, dtype=torch.float64))


def gradient(step: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * seed + step)
    return torch.randn(2, 2, generator=generator, dtype=torch.float64)


def take(optimizer: Any, *, steps: range) -> None:
    """Take some steps; parameter `k` of all groups has gradients of its own."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for step in steps:
        for seed, parameter in enumerate(parameters):
            parameter.grad = gradient(step, seed)
        optimizer.step()


@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_a_group_is_trained_as_by_an_optimizer_of_its_own(
    kind: str,
    options: dict[str, Any],
) -> None:
    changes = [{"lr": 0.2}, {"lr": 0.01}, {"weight_decay": 0.3}, {"lr": 0.5, "weight_decay": 0.0}]
    if kind == "debiased_momentum":
        changes.append({"beta": 0.2})
    for change in changes:
        first, second = weights(0), weights(1)
        groups: Any = [{"params": [first]}, {"params": [second], **change}]
        take(optimizer_of(kind, **options).build(groups), steps=range(STEPS))
        alone, other = weights(0), weights(1)
        both: Any = [alone], [other]
        one = optimizer_of(kind, **options).build(both[0])
        two = optimizer_of(kind, **options | change).build(both[1])
        for step in range(STEPS):
            alone.grad, other.grad = gradient(step, 0), gradient(step, 1)
            one.step()
            two.step()
        torch.testing.assert_close(first.detach(), alone.detach(), rtol=0, atol=1e-14)
        torch.testing.assert_close(second.detach(), other.detach(), rtol=0, atol=1e-14)


def moved(optimizer: Any, *, lr: float) -> torch.Tensor:
    """Return how far a copy of an optimizer moves its weights in the next step at this rate."""
    made = copy.deepcopy(optimizer)
    (group,) = made.param_groups
    group["lr"] = lr
    before = group["params"][0].detach().clone()
    take(made, steps=range(STEPS, STEPS + 1))
    return group["params"][0].detach() - before


@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_a_step_is_as_long_as_the_rate_that_stands_there_now(
    kind: str,
    options: dict[str, Any],
) -> None:
    made = optimizer_of(kind, **options).build([weights(0)])
    take(made, steps=range(STEPS))
    whole = moved(made, lr=0.05)
    assert whole.abs().max() > 0
    for factor in (0.0, 0.25, 3.0):
        torch.testing.assert_close(
            moved(made, lr=0.05 * factor),
            factor * whole,
            rtol=1e-9,
            atol=1e-12,
        )
