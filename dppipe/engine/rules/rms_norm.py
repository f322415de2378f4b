"""Root-mean-square normalisation: all positions of a row share the scale."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.gradients.forms import Dense
from dppipe.engine.rules.base import Example, Found, Rule, Use, wide


def answer(
    use: Use,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Answer `F.rms_norm`."""
    shape = list(normalized_shape)

    def gradients(output: Tensor, inputs: Tensor) -> Found:
        products = wide(output) * wide(F.rms_norm(inputs, shape, eps=eps))
        yield weight, Dense(products.movedim(use.axis, 0).reshape(use.rows, -1, *shape).sum(1))

    return use.tap(
        F.rms_norm(input, shape, None if weight is None else weight.detach(), eps),
        (input,),
        gradients,
    )


RULE = Rule(
    name="rms_norm",
    functions=(F.rms_norm,),
    answer=answer,
    examples=(
        Example(lambda: nn.RMSNorm(5), lambda rows: (torch.randn(rows, 3, 5),)),
        Example(lambda: nn.RMSNorm((2, 3), eps=1e-3), lambda rows: (torch.randn(rows, 2, 3),)),
    ),
)
