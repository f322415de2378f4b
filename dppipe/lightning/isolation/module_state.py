"""State that user code keeps on modules beside parameters and buffers: attributes, lists, metrics.

`own_attributes` finds it. `Fingerprint` tells whether any of it was changed, by identity, length
and version, without copying a value. Read next: `replica.py`, which undoes such changes.
"""

from __future__ import annotations

import operator
import zlib
from collections import deque
from collections.abc import Iterable
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from dppipe.lightning.isolation.library_code import LIBRARIES, OWN_LAYERS

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, type, range, slice),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    *(BuiltinFunctionType, FunctionType, ModuleType),
)
"""Types whose values can't be changed, or are code."""
_PLAIN_TYPES = frozenset(PLAIN) - {FunctionType}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Where torch keeps the hooks of a module."""
_CONTAINERS = (list, dict, set, deque, Tensor, numpy.ndarray)
VALIDATION_HOOKS = (
    *("on_validation_start", "on_validation_epoch_start", "on_validation_batch_start"),
    *("on_validation_batch_end", "on_validation_epoch_end", "on_validation_end"),
)
PATCHED = (
    *("training_step", "validation_step", "backward", "log", "log_dict", "optimizers"),
    *("on_validation_model_eval", "on_validation_model_train", *VALIDATION_HOOKS),
)
"""Attributes that a fit puts on the user's module; they must not be copied."""
PATCHED_NAMES = frozenset(PATCHED)
MOST = 100_000
"""The most objects of a fingerprint, since an attribute may lead to a whole program."""
LONGEST = 4096
"""The items of longer containers are compared at once, where nothing can be changed inside them."""
_COMPARED = (int, float, str, frozenset)
"""Types of which an equal value is no change."""


def own_attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes that torch and Lightning don't keep on every module themselves.

    A list or the like on the class is among them: code that appends to it changes it.
    """
    kind: Any = type(module)
    kept = _kept_names(kind)
    found = dict(class_containers(kind))
    for name, value in vars(module).items():
        if name not in kept:
            found[name] = value
    return found


def stateful(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the modules, with their paths, that have code or hooks of the user's own.

    Such code may write attributes.
    """
    found = []
    for path, module in model.named_modules():
        own_code = not type(module).__module__.startswith(OWN_LAYERS)
        if own_code or any(getattr(module, register) for register in HOOKS):
            found.append((path, module))
    return found


def hooks_of(module: nn.Module, *, like: nn.Module) -> list[Any]:
    """Return the hooks of a module that `like` has too; others are the engine's own."""
    found = []
    for register in HOOKS:
        keys = getattr(like, register)
        if keys:
            held = getattr(module, register)
            found += [held.get(key) for key in keys]
    return found


def captured(function: FunctionType) -> list[Any]:
    """Return what a function has captured, and its defaults."""
    found: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # a name that isn't bound yet
            continue
    found += function.__defaults__ or ()
    found += (function.__kwdefaults__ or {}).values()
    return found


class Fingerprint:
    """The objects that a set of modules holds, in the order in which they are found.

    It keeps every object alive, so that another object at the same address isn't taken for it.

    Guarantee: a fingerprint that doesn't reach every object differs from every other.
    """

    def __init__(self, modules: Iterable[nn.Module], hooks: Iterable[Any] = ()) -> None:
        self._whole = True
        self._found: list[Any] = []
        self._seen: set[int] = set()
        for module in modules:
            held = own_attributes(module)
            if _PLAIN_TYPES.issuperset(map(type, held.values())) and PATCHED_NAMES.isdisjoint(held):
                self._found += (_Items(held), _Items(held.values()))  # as most layers' are
                continue
            for name, value in held.items():
                if name not in PATCHED_NAMES:
                    self._found.append(name)
                    self._follow(value)
        for hook in hooks:
            self._follow(hook)

    def same_as(self, other: Fingerprint) -> bool:
        """Return whether no attribute was changed between the two."""
        if not (self._whole and other._whole) or len(self._found) != len(other._found):
            return False
        return all(map(_same, self._found, other._found))

    def _follow(self, value: Any) -> None:
        self._found.append(value)
        if type(value) in _PLAIN_TYPES or isinstance(value, nn.Module):
            return
        if isinstance(value, Tensor):
            self._found += [_version(value), _shares_memory(value)]
            return
        if id(value) in self._seen or isinstance(value, (Dataset, DataLoader)):
            return
        if len(self._seen) >= MOST:
            self._whole = False
            return
        self._seen.add(id(value))
        self._follow_inside(value)

    def _follow_inside(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            held = captured(value)
            self._follow_items(held, len(held))
        elif isinstance(value, (list, tuple, deque)):
            self._follow_items(value, len(value))
        elif isinstance(value, dict):
            self._follow_items(value.keys(), len(value))
            self._follow_items(value.values(), len(value))
        elif isinstance(value, (set, frozenset)):
            self._found.append(frozenset(value))
        elif isinstance(value, numpy.ndarray) and value.dtype == object:
            self._follow_items(value.tolist(), value.size)
        elif isinstance(value, numpy.ndarray):
            self._found.append(zlib.crc32(numpy.ascontiguousarray(value).view(numpy.uint8).data))
        elif isinstance(value, MethodType):
            self._follow(value.__self__)
        elif isinstance(value, partial):
            self._follow_items((value.func, value.args, value.keywords), 3)
        else:
            self._follow_attributes(value)

    def _follow_attributes(self, value: Any) -> None:
        held = dict(getattr(value, "__dict__", {})) | slot_values(value)
        self._follow_items(held.values(), len(held))

    def _follow_items(self, items: Iterable[Any], count: int) -> None:
        self._found.append(count)
        if count > LONGEST:
            held = _Items(items)
            self._found.append(held)
            if set(map(type, held)) <= _PLAIN_TYPES:
                return
            items = held
        for item in items:
            self._follow(item)


class _Items(tuple[Any, ...]):
    """Items that nothing can be changed inside of; by identity they are compared fastest."""

    __slots__ = ()


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if type(left) is _Items and type(right) is _Items:
        if len(left) != len(right):
            return False
        return all(map(operator.is_, left, right)) or all(map(_same, left, right))
    return type(left) in _COMPARED and type(left) is type(right) and bool(left == right)


def _version(tensor: Tensor) -> int:
    """Return a number that every change in place increases; -1 where torch keeps none."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


def _shares_memory(tensor: Tensor) -> bool:
    """Return whether a tensor still shares its memory with its lazy copy: a write ends that."""
    try:
        return bool(torch._C._is_cow_tensor(tensor))  # type: ignore[attr-defined]
    except (NotImplementedError, RuntimeError):  # a tensor of vmap, which has outlived it
        return False


def slot_values(value: Any) -> dict[str, Any]:
    """Return what an object keeps in the `__slots__` of its class and bases."""
    held: dict[str, Any] = {}
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            held[name] = getattr(value, name, None)
    return held


def class_containers(kind: Any) -> dict[str, Any]:
    """Return the containers among the attributes of a class and of its bases in user code."""
    return _class_containers(kind)


@lru_cache
def _class_containers(kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith(LIBRARIES):
            for name, value in vars(base).items():
                if isinstance(value, _CONTAINERS) and not name.startswith("__"):
                    found[name] = value
    return found


@lru_cache
def _kept_names(kind: Any) -> frozenset[str]:
    """Return the names that every module of this kind has, whatever its own code does."""
    kept = set(vars(nn.Module()))
    for base in kind.__mro__:
        if base.__name__ == "LightningModule":
            kept |= set(vars(base()))
    return frozenset(kept)
