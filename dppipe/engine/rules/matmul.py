"""Matrix products with a parameter on the right: `x @ weight` and, if tied, `x @ weight.T`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Found, Rule, Unhandled, Use, rows_first, wide
from dppipe.engine.rules.linear import outer


def answer(use: Use, input: Tensor, other: Tensor) -> Tensor:
    """Answer `torch.matmul` and `@`."""
    if use.trains(input) or other.dim() != 2:
        raise Unhandled("a product that isn't a batch times one matrix")
    original = use.untransposed(other)
    if original is not None:
        product: Tensor = use.call(F.linear, input, original)
        return product

    def gradients(output: Tensor, inputs: Tensor) -> Found:
        outputs = rows_first(wide(output), use.axis)
        yield other, outer(use, other, outputs, rows_first(inputs, use.axis).to(outputs.dtype))

    return use.tap(torch.matmul(input, other.detach()), (input,), gradients)


class _Tied(nn.Module):
    """An embedding that is its own output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 4)
        self.mix = nn.Parameter(torch.randn(4, 4))

    def forward(self, ids: Tensor) -> Tensor:
        return torch.tanh(self.table(ids) @ self.mix) @ self.table.weight.T


RULE = Rule(
    name="matmul",
    functions=(torch.matmul, Tensor.matmul, Tensor.__matmul__),
    answer=answer,
    kernels=("ghost", "dense"),
    examples=(Example(_Tied, lambda rows: (torch.randint(0, 6, (rows, 5)),)),),
)
