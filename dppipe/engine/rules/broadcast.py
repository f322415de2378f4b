"""Arithmetic that broadcasts a parameter over the rows: biases, scales, positions, class tokens.

Each row gets a copy of the parameter, as a view that takes no memory. Autograd then sums over
everything but the rows, which yields the gradient row by row.
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
    replaced = []
    for value in args:
        trained = isinstance(value, Tensor) and use.trains(value)
        replaced.append(use.leaf(value, dims=dims) if trained else value)
    return use.function(*replaced, **kwargs)


def _functions() -> list[Any]:
    found: list[Any] = []
    for home in (torch, Tensor):
        for name in (*_NAMES, *_METHODS):
            if hasattr(home, name):
                found.append(getattr(home, name))
    return found


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
    functions=(*_VIEWS, *_functions()),
    answer=answer,
    looks_at="output",
    examples=(Example(_Affine, lambda rows: (torch.randn(rows, 3, 4),)),),
)
