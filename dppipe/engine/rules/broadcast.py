"""Arithmetic that broadcasts a parameter over the rows: biases, scales, positions, class tokens.

Each row gets a copy of the parameter that takes no memory; autograd's own sum over everything but the rows is then the
gradient, row by row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dppipe.engine.rules.base import Example, Rule, Use

_NAMES = (
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "maximum",
    "minimum",
    "where",
    "lerp",
)
_METHODS = (
    "add_",
    "sub_",
    "mul_",
    "div_",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
    "__rsub__",
    "__rtruediv__",
)
_VIEWS = (Tensor.expand, Tensor.expand_as, Tensor.broadcast_to, torch.broadcast_to)


def answer(use: Use, *args: Any, **kwargs: Any) -> Any:
    """Answer a function that broadcasts its arguments."""
    if use.function in _VIEWS:
        with torch.no_grad():
            dims = use.function(*args, **kwargs).dim()
    else:
        dims = max(value.dim() for value in args if isinstance(value, Tensor))
    replaced = [
        use.leaf(value, dims=dims) if isinstance(value, Tensor) and use.trains(value) else value
        for value in args
    ]
    return use.function(*replaced, **kwargs)


class _Affine(nn.Module):
    """A scale and a shift as bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.shift = nn.Parameter(torch.randn(3, 1))
        self.token = nn.Parameter(torch.randn(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.shift - x * self.scale / (2 + self.scale.square())
        return torch.cat([self.token.expand(len(x), -1, -1), y], dim=1)


RULE = Rule(
    name="broadcast",
    functions=(
        *_VIEWS,
        *(
            getattr(home, name)
            for home in (torch, Tensor)
            for name in (*_NAMES, *_METHODS)
            if hasattr(home, name)
        ),
    ),
    answer=answer,
    looks_at="output",
    examples=(Example(_Affine, lambda rows: (torch.randn(rows, 3, 4),)),),
)
