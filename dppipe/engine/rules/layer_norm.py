"""Layer normalisation: all positions of a row share the scale and the shift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import Example, Found, Rule, Use, autocast_wide, plain, wide


def answer(
    use: Use,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Answer `F.layer_norm`."""
    output, mean, scale = torch.native_layer_norm(
        autocast_wide(input), list(normalized_shape), plain(weight), plain(bias), eps
    )

    def gradients(output: Tensor, inputs: Tensor, mean: Tensor, scale: Tensor) -> Found:
        size = math.prod(normalized_shape)
        flat = _positions(wide(output), use.axis, size)  # [B, T, size]
        values = _positions(wide(inputs), use.axis, size)  # [B, T, size]
        mean = _positions(wide(mean), use.axis, 1).transpose(1, 2)  # [B, 1, T]
        scale = _positions(wide(scale), use.axis, 1).transpose(1, 2)  # [B, 1, T]
        if use.trains(weight):
            products = torch.bmm(scale, flat * values) - torch.bmm(scale * mean, flat)
            yield weight, Dense(products.reshape(use.rows, *normalized_shape))
        if use.trains(bias):
            yield bias, Dense(flat.sum(1).reshape(use.rows, *normalized_shape))

    return use.tap(output, (input, mean, scale), gradients)


def _positions(values: Tensor, axis: int, size: int) -> Tensor:  # -> [B, T, size]
    """Move the rows to the front; flatten the positions, and the normalised dimensions."""
    moved = values.movedim(axis, 0) if axis else values
    return moved.reshape(moved.shape[0], -1, size)


RULE = Rule(
    name="layer_norm",
    functions=(F.layer_norm,),
    answer=answer,
    examples=(
        Example(lambda: nn.LayerNorm(5), lambda rows: (torch.randn(rows, 5),)),
        Example(lambda: nn.LayerNorm((3, 4)), lambda rows: (torch.randn(rows, 2, 3, 4) + 3,)),
        Example(lambda: nn.LayerNorm(4, bias=False), lambda rows: (torch.randn(rows, 6, 4),)),
    ),
)
