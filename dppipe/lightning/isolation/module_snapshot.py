"""A snapshot of a module: modes, buffers, parameters and attributes, to be put back later.

Whether a parameter is trained belongs to it: a frozen one would be left out of the next steps.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from dppipe.lightning.isolation.module_copies import (
    copy_value,
    lazy_copy,
    refill,
    registers,
    replaced,
    shared_objects,
    untouched,
)
from dppipe.lightning.isolation.module_state import (
    PATCHED,
    class_containers,
    hooks_of,
    own_attributes,
    stateful,
)
from dppipe.lightning.isolation.object_snapshot import CODE, ObjectSnapshot


class ModuleSnapshot:
    """What a module holds at one moment; nothing is copied until somebody writes to it."""

    def __init__(self, module: nn.Module) -> None:
        self._tensors = [(tensor, lazy_copy(tensor)) for tensor in _tensors(module)]
        self._trained = [(one, one.requires_grad, one.grad) for one in module.parameters()]
        self._memo = shared_objects(module, frozen=False)
        self._attributes: list[tuple[nn.Module, dict[str, Any]]] = []
        self._registers: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._containers: list[tuple[Any, Any]] = []
        code: list[Any] = []
        for inner in module.modules() if stateful(module) else ():
            self._attributes.append((inner, self._copied(vars(inner), inner)))
            self._registers += [(held, dict(held)) for held in registers(inner)]
            code += hooks_of(inner, like=inner)
            code += [value for value in own_attributes(inner).values() if isinstance(value, CODE)]
            for container in class_containers(type(inner)).values():
                self._containers.append((container, copy_value(container, dict(self._memo))))
        self._captured = ObjectSnapshot(code)

    def restore(self) -> None:
        """Undo changes since the snapshot."""
        self._captured.restore()
        for held, names in self._registers:
            if replaced(held, names):
                held.clear()
                held.update(names)
        for tensor, value in self._tensors:
            if not untouched(tensor):
                tensor.data = value
        for parameter, requires_grad, gradient in self._trained:
            parameter.requires_grad_(requires_grad)
            parameter.grad = gradient
        for module, attributes in self._attributes:
            for name in own_attributes(module).keys() - attributes.keys() - set(PATCHED):
                module.__dict__.pop(name, None)
            module.__dict__.update(attributes)
        for container, value in self._containers:
            refill(container, value)

    def _copied(self, held: dict[str, Any], module: nn.Module) -> dict[str, Any]:
        memo = dict(self._memo)
        copied: dict[str, Any] = {}
        for name in own_attributes(module).keys() & held.keys() - set(PATCHED):
            value = held[name]
            # A function isn't replaced: others may hold it. What it has captured is put back.
            copied[name] = value if isinstance(value, CODE) else copy_value(value, memo)
        return copied


def _tensors(module: nn.Module) -> list[Any]:
    return [*module.parameters(), *module.buffers()]
