"""Linear layers with any number of positions in each row, and matrix products with a parameter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.costs import outer_costs
from dppipe.engine.gradients.forms import Dense, Outer
from dppipe.engine.gradients.norms import row_squares
from dppipe.engine.rules.base import Example, Found, Rule, Use, plain, rows_first, wide

CHUNK = 1 << 20
"""Floats of the input that are multiplied and normed at a time, while they are in cache."""


def answer(use: Use, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Answer `F.linear`."""
    squares = None
    if input.dim() == 2 and input.numel() > 4 * CHUNK and not input.requires_grad:
        result, squares = _with_squares(input, weight.detach(), plain(bias))
    else:
        result = F.linear(input, weight.detach(), plain(bias))

    def gradients(output: Tensor, inputs: Tensor) -> Found:
        outputs = rows_first(wide(output), use.axis)
        if use.trains(weight):
            rows = rows_first(inputs, use.axis).to(outputs.dtype)
            yield weight, outer(use, weight, rows, outputs, input_squares=squares)
        if use.trains(bias):
            yield bias, Dense(outputs.sum(1) if outputs.shape[1] > 1 else outputs.squeeze(1))

    return use.tap(result, (input,), gradients)


def _with_squares(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the output and each row's squared norm, in one pass over a large input."""
    outputs = []
    squares = []
    for chunk in torch.split(input, max(1, CHUNK // input.shape[1])):
        outputs.append(F.linear(chunk, weight, bias))
        squares.append(row_squares(chunk))
    return torch.cat(outputs), torch.cat(squares)


def outer(
    use: Use,
    weight: Tensor,
    inputs: Tensor,
    outputs: Tensor,
    *,
    input_squares: Tensor | None = None,
) -> Outer | Dense:  # [B, T, d], [B, T, p]
    """Hold a product by its factors, or form it where that is cheaper."""
    product = Outer(inputs, outputs, input_squares=input_squares)
    rows, positions, size = inputs.shape
    if positions == 1:
        return product
    kernel = use.choose(weight, outer_costs(rows, positions, size, outputs.shape[2]))
    return product if kernel == "ghost" else Dense(product.dense())


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
