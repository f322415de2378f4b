"""DP-AdamBC against its definition (Tang, Shpilevskiy and Lecuyer 2024), in float64."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dppipe.optim import Adam, AdamBC
from dppipe.optim.known_noise import tell_noise

STEPS = 25


def gradients(seed: int, *, noise: numpy.ndarray) -> numpy.ndarray:
    drawn = numpy.random.default_rng(seed)
    return 0.01 * drawn.normal(size=(STEPS, 6)) + noise[:, None] * drawn.normal(size=(STEPS, 6))


def trained(optimizer: Any, rows: numpy.ndarray, noise: numpy.ndarray) -> torch.Tensor:
    (parameter,) = optimizer.param_groups[0]["params"]
    for row, std in zip(rows, noise, strict=True):
        tell_noise(optimizer, float(std))
        parameter.grad = torch.tensor(row)
        optimizer.step()
    return parameter.detach()


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    first=st.floats(0, 0.99),
    second=st.floats(0, 0.9999),
    floor=st.floats(1e-10, 1e-3),
    weight_decay=st.sampled_from([0.0, 0.1]),
    end=st.sampled_from([0.0, 0.2, 1.0]),
)
def test_every_step_is_the_papers_with_any_schedule_of_the_noise(
    seed: int, first: float, second: float, floor: float, weight_decay: float, end: float
) -> None:
    noise = 0.02 * numpy.linspace(1.0, end, STEPS)
    rows = gradients(seed, noise=noise)
    made = AdamBC(lr=0.01, betas=(first, second), floor=floor, weight_decay=weight_decay)
    found = trained(made.build([nn.Parameter(torch.ones(6, dtype=torch.float64))]), rows, noise)
    weights = numpy.ones(6)
    seen = []
    for t, row in enumerate(rows, start=1):
        seen.append(row + weight_decay * weights)
        ages = numpy.arange(t - 1, -1, -1)
        mean = (1 - first) * first**ages @ numpy.array(seen) / (1 - first**t)
        weighted = (1 - second) * second**ages / (1 - second**t)
        corrected = weighted @ numpy.array(seen) ** 2 - weighted @ noise[:t] ** 2
        weights = weights - 0.01 * mean / (numpy.sqrt(numpy.maximum(corrected, floor)) + 1e-8)
    torch.testing.assert_close(found, torch.tensor(weights), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"betas": (0.5, 0.7), "weight_decay": 0.1, "eps": 1e-3}])
def test_without_noise_it_is_adam(options: dict[str, Any]) -> None:
    nothing = numpy.zeros(STEPS)
    # Squares far below the floor: there is nothing to correct, so nothing is floored.
    rows = 1e-3 * gradients(1, noise=nothing)
    start = torch.ones(6, dtype=torch.float64)
    ours = AdamBC(lr=0.1, **options).build([nn.Parameter(start.clone())])
    theirs = Adam(lr=0.1, **options).build([nn.Parameter(start.clone())])
    expected = trained(theirs, rows, nothing)
    torch.testing.assert_close(trained(ours, rows, nothing), expected, rtol=0, atol=1e-12)


def test_of_a_large_noise_it_finds_the_gradients_own_size() -> None:
    # 20,000 coordinates with gradient 0.01 under noise of 0.05: Adam divides by 0.051, this by
    # 0.01. The mean of squares over 400 steps is off by 9 % of the noise's variance (one standard
    # deviation), so the median over coordinates is off by about 0.2 % of it.
    drawn = torch.Generator().manual_seed(0)
    parameter = nn.Parameter(torch.zeros(20_000, dtype=torch.float64))
    optimizer = AdamBC(betas=(0.9, 0.999)).build([parameter])
    tell_noise(optimizer, 0.05)
    for _ in range(400):
        noise = torch.randn(20_000, generator=drawn, dtype=torch.float64)
        parameter.grad = 0.01 + 0.05 * noise
        optimizer.step()
    state = optimizer.state[parameter]
    unbiased = 1 - 0.999**400
    corrected = (state["squares"] - state["noise_variance"]) / unbiased
    assert corrected.mean().item() == pytest.approx(0.01**2, rel=0.2)


def test_a_saved_state_remembers_the_noise_of_earlier_steps() -> None:
    noise = numpy.linspace(0.05, 0.01, STEPS)
    rows = gradients(3, noise=noise)
    whole = trained(AdamBC().build([nn.Parameter(torch.zeros(6).double())]), rows, noise)
    begun = AdamBC().build([nn.Parameter(torch.zeros(6).double())])
    halfway = trained(begun, rows[:10], noise[:10])
    resumed = AdamBC().build([nn.Parameter(halfway.clone())])
    resumed.load_state_dict(begun.state_dict())
    assert torch.equal(trained(resumed, rows[10:], noise[10:]), whole)
