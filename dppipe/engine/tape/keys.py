"""How a call that uses weights is recognised from one forward pass to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from dppipe.engine.tape.weights import Weight

Key = tuple[Callable[..., Any], tuple[str, ...], tuple[int, ...]]
"""A function, the names of the parameters that one call of it uses, and each tensor's dimensions.

The last is the number of dimensions of every tensor among the arguments.
"""
TRANSPOSES = frozenset({torch.t, Tensor.t, Tensor.T.__get__, Tensor.mT.__get__})  # type: ignore[attr-defined]


def make_key(func: Callable[..., Any], used: list[Weight], tensors: Iterable[Tensor]) -> Key:
    """Return the key of a call with these weights and tensors among its arguments."""
    names: list[str] = []
    for weight in used:
        names += weight.names
    return func, tuple(names), tuple([tensor.dim() for tensor in tensors])


def name_of(func: Callable[..., Any]) -> str:
    """Return the public name of a torch function."""
    return str(torch.overrides.resolve_name(func) or getattr(func, "__name__", repr(func)))
