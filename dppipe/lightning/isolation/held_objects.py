"""What an object holds, directly or through others: to find generators, locks and datasets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy
from torch import Tensor, nn

from dppipe.lightning.isolation.library_code import NOT_SEARCHED
from dppipe.lightning.isolation.module_state import (
    PATCHED,
    PLAIN,
    captured,
    own_attributes,
    slot_values,
)

MOST = 20_000
"""The most objects that are searched, since an attribute may lead to a whole program."""
LONGEST = 64
"""Containers with more items hold records or words, and aren't searched."""


def find_held(
    values: Iterable[Any], kinds: tuple[type, ...], *, onwards: bool = False
) -> list[Any]:
    """Return the objects of some kinds that values hold in attributes, containers and closures.

    With `onwards` the found objects are searched as well, but for modules.
    """
    found: list[Any] = []
    seen: dict[int, Any] = {}
    waiting = deque(values)
    while waiting and len(seen) < MOST:
        value = waiting.popleft()
        plain = type(value) in PLAIN and not isinstance(value, FunctionType)
        if plain or id(value) in seen:
            continue
        seen[id(value)] = value
        if type(value).__module__.startswith(NOT_SEARCHED):
            continue
        if isinstance(value, kinds):
            found.append(value)
        if (onwards and not isinstance(value, nn.Module)) or not isinstance(value, kinds):
            waiting.extend(inside(value))
    return found


def inside(value: Any) -> Iterator[Any]:
    """Yield what an object holds directly."""
    if isinstance(value, (Tensor, numpy.ndarray)):
        return
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        yield from value if len(value) <= LONGEST else ()
    elif isinstance(value, nn.Module):
        yield from value.children()
        for name, held in own_attributes(value).items():
            if name not in PATCHED:
                yield held
    elif isinstance(value, dict):
        yield from value.values() if len(value) <= LONGEST else ()
    elif isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, FunctionType):
        yield from captured(value)
    else:
        yield from getattr(value, "__dict__", {}).values()
        yield from slot_values(value).values()
