"""A snapshot of what functions and hooks have captured, to be put back in place.

A function can't be replaced where others hold it. So the lists, objects and names that it has
captured get their contents back themselves.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy
from torch import Tensor, nn

from dppipe.lightning.isolation.held_objects import find_held
from dppipe.lightning.isolation.module_copies import lazy_copy, refill
from dppipe.lightning.isolation.module_state import slot_values

CODE = (FunctionType, MethodType)
"""Functions and methods aren't replaced by a snapshot; what they have captured is put back."""
_CONTAINERS = (list, dict, set, deque, numpy.ndarray)


class ObjectSnapshot:
    """What can be changed in place behind some objects, but for modules."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._cells: list[tuple[CellType, Any]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._objects: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        for value in find_held(values, (object,), onwards=True):
            self._keep(value)

    def restore(self) -> None:
        """Undo changes since the snapshot."""
        for cell, content in self._cells:
            cell.cell_contents = content
        for container, value in self._containers:
            refill(container, value)
        for value, attributes, slots in self._objects:
            if attributes:
                vars(value).clear()
                vars(value).update(attributes)
            for name, held in slots.items():
                setattr(value, name, held)

    def _keep(self, value: Any) -> None:
        if isinstance(value, nn.Module):
            return
        if isinstance(value, FunctionType):
            for cell in value.__closure__ or ():
                try:
                    self._cells.append((cell, cell.cell_contents))
                except ValueError:  # a name that isn't bound yet
                    continue
        elif isinstance(value, Tensor):
            self._containers.append((value, lazy_copy(value)))
        elif isinstance(value, _CONTAINERS):
            self._containers.append((value, copy.copy(value)))
        else:
            attributes = dict(getattr(value, "__dict__", {}))
            self._objects.append((value, attributes, slot_values(value)))
