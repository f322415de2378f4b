"""Copies of what a module holds: tensors are copied lazily, and some objects are shared.

Read next: `replica.py`, which copies a whole module by them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock, RLock
from types import CellType, FunctionType
from typing import Any, cast

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from dppipe.lightning.isolation.held_objects import find_held
from dppipe.lightning.isolation.library_code import FRAMEWORK
from dppipe.lightning.isolation.module_state import HOOKS, PATCHED, PLAIN, own_attributes, stateful

LOCKS = (type(Lock()), type(RLock()))
"""Locks can't be copied and hold nothing: a copy of a module shares them."""


def copy_value(value: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of an attribute; `memo` maps ids of objects to what a copy has for them."""
    if isinstance(value, FunctionType):
        return _copied_function(value, memo)
    if type(value) in PLAIN:
        return value
    if isinstance(value, Tensor) and id(value) not in memo:
        return lazy_copy(value)
    for function in find_held([value], (FunctionType,)):  # which `deepcopy` would share
        _copied_function(function, memo)
    return copy.deepcopy(value, memo)


def _copied_function(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
    """Return a function with copies of what it captured; it sees the replica, not the module."""
    if id(function) in memo or not (
        function.__closure__ or function.__defaults__ or function.__kwdefaults__
    ):
        return cast(FunctionType, memo.get(id(function), function))
    cells = tuple(memo.setdefault(id(cell), CellType()) for cell in function.__closure__ or ())
    made = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    memo[id(function)] = made
    vars(made).update(vars(function))
    for cell, copied in zip(function.__closure__ or (), cells, strict=True):
        with suppress(ValueError):  # a name that isn't bound yet
            copied.cell_contents = _captured_copy(cell.cell_contents, memo)
    if function.__defaults__ is not None:
        made.__defaults__ = tuple(_captured_copy(value, memo) for value in function.__defaults__)
    if function.__kwdefaults__ is not None:
        made.__kwdefaults__ = {}
        for name, value in function.__kwdefaults__.items():
            made.__kwdefaults__[name] = _captured_copy(value, memo)
    return made


def _captured_copy(value: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of what a function has captured.

    Datasets, Lightning's objects and torch's layers are shared.
    """
    if id(value) in memo:
        return memo[id(value)]
    foreign = type(value).__module__.startswith(FRAMEWORK)
    network = isinstance(value, nn.Module) and not stateful(value)
    if foreign or network or isinstance(value, (Dataset, DataLoader)):
        return value
    try:
        return copy_value(value, memo)
    except Exception:
        return value


def copy_hooks(source: nn.Module, twin: nn.Module, memo: dict[int, Any]) -> None:
    """Put copies of a module's hooks on its copy."""
    for register in HOOKS:
        for key, hook in getattr(source, register).items():
            getattr(twin, register)[key] = copy_value(hook, memo)


def shared_objects(original: nn.Module, *, frozen: bool = True) -> dict[int, Any]:
    """Return, by id, the object that a copy of a module has for each of the module's objects.

    With `frozen`, buffers and frozen parameters are copied. Without it the copy shares all tensors
    and modules.
    """
    memo: dict[int, Any] = {}
    for parameter in original.parameters():
        copied = frozen and not parameter.requires_grad
        memo[id(parameter)] = _frozen_copy(parameter) if copied else parameter
    for buffer in original.buffers():
        memo[id(buffer)] = lazy_copy(buffer) if frozen else buffer
    if not frozen:
        memo |= {id(module): module for module in original.modules()}
    for module in original.modules():
        for value in own_attributes(module).values():
            if isinstance(value, (Dataset, DataLoader)):
                memo[id(value)] = value
    return memo | {id(lock): lock for lock in find_held([original], LOCKS)}


def attribute_copies(original: nn.Module) -> dict[int, Any]:
    """Return, by id, the copies of attributes that can't or mustn't be copied as they are."""
    memo: dict[int, Any] = {}
    for module in original.modules():
        for name, value in own_attributes(module).items():
            if name in PATCHED:
                memo[id(value)] = None
            elif isinstance(value, Tensor):
                memo[id(value)] = lazy_copy(value)
    return memo


def _frozen_copy(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(lazy_copy(parameter), requires_grad=False)


def trainable_names(model: nn.Module) -> set[str]:
    """Return all names of the trainable parameters; a tied one has several."""
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, parameter in named if parameter.requires_grad}


def registers(module: nn.Module) -> tuple[dict[str, Any], ...]:
    """Return the dictionaries in which a module holds its parameters, buffers and submodules."""
    return module._parameters, module._buffers, module._modules


def replaced(held: dict[str, Any], names: dict[str, Any]) -> bool:
    """Return whether user code has put something else into a register.

    Plain tensors that `torch.func` puts in place of parameters for a while don't count.
    """
    if held.keys() != names.keys():
        return True
    for name, value in names.items():
        now = held[name]
        if now is value:
            continue
        if not isinstance(value, nn.Parameter) or isinstance(now, nn.Parameter):
            return True
    return False


def held_tensors(model: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield every buffer and frozen parameter with the dictionary that holds it."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield module._buffers, name, buffer
        for name, parameter in module._parameters.items():
            if parameter is not None and not parameter.requires_grad:
                yield module._parameters, name, parameter


def refill(container: Any, value: Any) -> None:
    """Put the contents of a copy back into the container that it was made from."""
    if isinstance(container, Tensor):
        container.data = value
    elif isinstance(container, numpy.ndarray):
        container[...] = value
    else:
        container.clear()
        if isinstance(container, (dict, set)):
            container.update(value)
        else:
            container.extend(value)


def lazy_copy(tensor: Tensor) -> Tensor:
    """Return a copy that takes memory only once either of the two is written to."""
    plain = tensor.detach()
    try:
        return plain._lazy_clone()
    except (RuntimeError, AttributeError):  # memory that torch doesn't own, such as NumPy's
        return plain.clone()


def untouched(tensor: Tensor) -> bool:
    """Return whether a tensor still shares its memory with its lazy copy: nobody wrote to it."""
    return bool(torch._C._is_cow_tensor(tensor))  # type: ignore[attr-defined]
