"""Attributes that are put on objects while a module is fitted, and removed afterwards."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Attributes of instances, changed for a while; no class changes."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of this one instance until `undo`."""
        self._before.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        owner.__dict__[name] = value

    def undo(self) -> None:
        """Restore every attribute, the last first."""
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:
                owner.__dict__.pop(name, None)
            else:
                owner.__dict__[name] = value
