"""Linear layers with any number of positions in each row, and matrix products with a parameter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients import Dense, Outer
from dppipe.engine.rules.base import Example, Found, Rule, Use, plain, rows_first, wide
from dppipe.engine.rules.costs import outer_costs


def answer(use: Use, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Answer `F.linear`."""

    def gradients(output: Tensor, inputs: Tensor) -> Found:
        outputs = rows_first(wide(output), use.axis)
        if use.trains(weight):
            yield weight, outer(use, weight, rows_first(inputs, use.axis).to(outputs.dtype), outputs)
        if use.trains(bias):
            yield bias, Dense(outputs.sum(1) if outputs.shape[1] > 1 else outputs.squeeze(1))

    return use.tap(F.linear(input, weight.detach(), plain(bias)), (input,), gradients)


def outer(use: Use, weight: Tensor, inputs: Tensor, outputs: Tensor) -> Outer | Dense:  # [B, T, d], [B, T, p]
    """Hold a product by its factors, or form it where that is cheaper."""
    product = Outer(inputs, outputs)
    rows, positions, size = inputs.shape
    if positions == 1 or use.choose(weight, outer_costs(rows, positions, size, outputs.shape[2])) == "ghost":
        return product
    return Dense(product.dense())


RULE = Rule(
    name="linear",
    functions=(F.linear,),
    answer=answer,
    kernels=("ghost", "dense"),
    examples=(
        Example(lambda: nn.Linear(5, 3), lambda rows: (torch.randn(rows, 5),)),
        Example(lambda: nn.Linear(5, 3, bias=False), lambda rows: (torch.randn(rows, 4, 5),)),
        Example(lambda: nn.Linear(3, 6), lambda rows: (torch.randn(rows, 2, 4, 3),)),
    ),
)
