"""Parametric rectifiers: one slope, or one for each channel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import Example, Found, Rule, Unhandled, Use, wide


def answer(use: Use, input: Tensor, weight: Tensor) -> Tensor:
    """Answer `F.prelu`."""
    use.require_axis(0)
    if input.dim() < 2:
        raise Unhandled("a rectifier on rows of one value")

    def gradients(output: Tensor, inputs: Tensor) -> Found:
        slopes = (
            (wide(output) * wide(inputs).clamp(max=0)).view(use.rows, inputs.shape[1], -1).sum(2)
        )
        yield weight, Dense(slopes if weight.numel() > 1 else slopes.sum(1, keepdim=True))

    return use.tap(F.prelu(input, weight.detach()), (input,), gradients)


RULE = Rule(
    name="prelu",
    functions=(F.prelu,),
    answer=answer,
    examples=(
        Example(nn.PReLU, lambda rows: (torch.randn(rows, 3, 4),)),
        Example(lambda: nn.PReLU(3), lambda rows: (torch.randn(rows, 3, 2, 2),)),
    ),
)
