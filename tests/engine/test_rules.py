"""The contract of layer rules: each example of each rule, by each of its kernels, agrees with the
float64 loop.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dppipe.clipping import Flat, Layerwise
from dppipe.engine.rules import RULES

CASES = [
    pytest.param(rule, example, kernel, id=f"{rule.name}-{i}-{kernel or 'direct'}")
    for rule in RULES
    for i, example in enumerate(rule.examples)
    for kernel in (rule.kernels or (None,))
]


class Wrapped(nn.Module):
    """A rule's example inside a model whose other parameters are there to be added to the norm."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.tensor([0.7]))

    def forward(self, *inputs):
        return self.inner(*inputs).flatten(1) * self.scale


def made(example, rows, *, seed=0):
    torch.manual_seed(seed)
    model = example.make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return Wrapped(model), example.inputs(rows)


def forced(rule, kernel):
    return {} if kernel is None else {rule.name: kernel}


@pytest.mark.parametrize(("rule", "example", "kernel"), CASES)
def test_norms_and_sums_agree_with_the_loop(rule, example, kernel, run, loop):
    for rows in (1, 4):
        model, batch = made(example, rows, seed=rows)
        result, engine = run(model, batch, Flat(max_grad_norm=1.0), kernels=forced(rule, kernel))
        loop(model, batch).agrees_with(result)
        assert not engine.layout.fallback
        assert engine.layout.functional is None


@pytest.mark.parametrize(("rule", "example", "kernel"), CASES)
def test_masks_and_units_agree_with_the_loop(rule, example, kernel, run, loop):
    model, batch = made(example, 6)
    mask, units = [True, True, False, True, True, True], [4, 9, 9, 4, 4, 7]
    result, _ = run(
        model,
        batch,
        Flat(max_grad_norm=0.5),
        kernels=forced(rule, kernel),
        mask=torch.tensor(mask),
        units=units,
    )
    loop(model, batch, bound=0.5, mask=mask, units=units).agrees_with(result)


@pytest.mark.parametrize(("rule", "example", "kernel"), CASES)
def test_groups_agree_with_the_loop(rule, example, kernel, run, loop):
    model, batch = made(example, 3)
    model, batch = (
        model.double(),
        tuple(part.double() if part.is_floating_point() else part for part in batch),
    )
    result, engine = run(model, batch, Layerwise(max_grad_norm=1.0), kernels=forced(rule, kernel))
    bound = float(engine.bounds()[0])
    expected = loop(
        model,
        batch,
        bound=bound,
        groups=lambda name: engine.groups.names[engine.groups.column[name]],
    )
    expected.agrees_with(result, norm_tolerance=1e-9, sum_tolerance=1e-9)


@pytest.mark.parametrize(("rule", "example", "kernel"), CASES)
def test_a_row_that_is_not_finite_counts_for_nothing(rule, example, kernel, run):
    model, batch = made(example, 4)
    if not batch[0].is_floating_point():
        pytest.skip("whole numbers are finite")
    broken = (batch[0].clone(), *batch[1:])
    broken[0][2] = float("inf")
    result, _ = run(model, broken, Flat(), kernels=forced(rule, kernel))
    kept, _ = run(
        model, tuple(part[[0, 1, 3]] for part in batch), Flat(), kernels=forced(rule, kernel)
    )
    assert not result.norms[2].isfinite().any()
    for name, expected in kept.sums.items():
        assert torch.allclose(result.sums[name], expected, rtol=1e-4, atol=1e-6), name


def test_every_rule_has_an_example():
    assert all(rule.examples for rule in RULES)


def test_no_function_has_two_rules():
    functions = [function for rule in RULES for function in rule.functions]
    assert len(functions) == len(set(functions))
