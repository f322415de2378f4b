"""Debiased momentum against its definition (Hong, Wang and Zhou 2022, Algorithm 2)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dppipe.optim import DebiasedMomentum


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_every_step_is_the_papers(weight_decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    parameter = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = DebiasedMomentum(lr=0.3, beta=0.8, weight_decay=weight_decay).build([parameter])
    average, weights = torch.zeros(3, dtype=torch.float64), parameter.detach().clone()
    for t, gradient in enumerate(gradients, start=1):
        average = 0.8 * average + 0.2 * (gradient + weight_decay * weights)
        weights = weights - 0.3 * average / (1 - 0.8**t)
        parameter.grad = gradient.clone()
        optimizer.step()
        torch.testing.assert_close(parameter.detach(), weights, rtol=0, atol=1e-14)


def test_a_constant_gradient_moves_every_step_by_the_learning_rate() -> None:
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = DebiasedMomentum(lr=0.5, beta=0.9).build([parameter])
    for t in range(1, 8):
        parameter.grad = torch.ones(1, dtype=torch.float64)
        optimizer.step()
        assert parameter.item() == pytest.approx(-0.5 * t)


def test_without_memory_it_is_gradient_descent() -> None:
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = DebiasedMomentum(lr=0.25, beta=0.0).build([parameter])
    for _ in range(3):
        parameter.grad = parameter.detach().clone()
        optimizer.step()
    torch.testing.assert_close(parameter.detach(), 0.75**3 * torch.tensor([1.0, -2.0]))


def test_a_parameter_without_a_gradient_stays() -> None:
    parameter = nn.Parameter(torch.ones(2))
    DebiasedMomentum().build([parameter]).step()
    assert torch.equal(parameter.detach(), torch.ones(2))
