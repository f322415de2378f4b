"""Attributes that stand on objects while a module is fitted, and are gone afterwards: no class, key or wrapper changes."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Instance attributes put on objects for a while."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Let an attribute of this one instance be `value` until `undo`."""
        self._before.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        owner.__dict__[name] = value

    def undo(self) -> None:
        """Take every attribute away again, the last first."""
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:
                owner.__dict__.pop(name, None)
            else:
                owner.__dict__[name] = value
