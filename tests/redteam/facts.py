"""Facts: what can be seen of a run, as text by its place, so that two runs are compared by comparing dictionaries.

`describe` turns any value into such facts. A tensor becomes its type, its shape, a hash of its bytes and its first numbers, so
two tensors have the same fact only if they are equal bit by bit.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Set
from typing import Any

import numpy
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

SHOWN = 3
"""How many numbers of a tensor a fact shows."""
DEPTH = 8
"""How deep values are followed."""
FOREIGN = (
    "torch",
    "pytorch_lightning",
    "lightning",
    "lightning_fabric",
    "dppipe",
    "builtins",
    "logging",
)
"""Packages whose objects are known by their type alone: what they keep is looked at where it comes out."""
INTERNAL = frozenset(vars(pl.LightningModule())) - {"training"}
"""What torch and Lightning keep on a module: parameters, buffers and children are described by themselves."""

Facts = dict[str, str]


def describe(value: Any, place: str = "", *, depth: int = DEPTH) -> Facts:
    """Return everything that a value holds, as text by its place."""
    if isinstance(value, Tensor | numpy.ndarray):
        return {place: describe_array(value)}
    if isinstance(value, nn.Module):
        return describe_module(value, place, depth=depth)
    if isinstance(value, Mapping):
        children = {str(name): child for name, child in value.items()}
    elif isinstance(value, list | tuple | deque):
        children = {str(number): child for number, child in enumerate(value)}
        children["length"] = len(value)
    elif isinstance(value, Set):
        children = {str(number): child for number, child in enumerate(sorted(map(repr, value)))}
    elif value is None or isinstance(value, bool | int | float | str | bytes):
        return {place: repr(value)}
    elif (
        callable(value)
        or type(value).__module__.split(".")[0] in FOREIGN
        or not hasattr(value, "__dict__")
    ):
        return {place: type(value).__name__}
    else:
        children = vars(value)
    if depth == 0:
        return {place: type(value).__name__}
    facts = {}
    for name, child in children.items():
        facts |= describe(child, f"{place}.{name}" if place else name, depth=depth - 1)
    return facts


def describe_module(module: nn.Module, place: str = "", *, depth: int = DEPTH) -> Facts:
    """Return the parameters, buffers, flags and attributes of a module and of all modules in it."""
    facts = {}
    for path, each in module.named_modules():
        prefix = ".".join(part for part in (place, path) if part)
        held = dict(each.named_parameters(recurse=False)) | dict(each.named_buffers(recurse=False))
        attributes = {name: value for name, value in vars(each).items() if name not in INTERNAL}
        for name, value in (held | attributes).items():
            facts |= describe(value, f"{prefix}.{name}" if prefix else name, depth=depth - 1)
    return facts


def describe_array(value: Tensor | numpy.ndarray) -> str:
    """Return the type, shape, hash and first numbers of an array."""
    array = (
        value.detach().cpu()
        if isinstance(value, Tensor)
        else torch.from_numpy(numpy.ascontiguousarray(value))
    )
    shown = ", ".join(f"{number:.6g}" for number in array.flatten()[:SHOWN].double().tolist())
    digest = hashlib.sha256(
        array.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    ).hexdigest()[:8]
    more = ", ..." if array.numel() > SHOWN else ""
    return (
        f"{str(array.dtype).removeprefix('torch.')} {list(array.shape)} [{shown}{more}] #{digest}"
    )
