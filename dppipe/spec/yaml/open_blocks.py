"""Lists and mappings that are being read: what has come of each, and what comes next."""

from __future__ import annotations

from typing import Any

import yaml

from dppipe.spec.yaml.document import Path


class Dropped:
    """A key whose value is read and dropped."""


class Filled:
    """The key `<<`, whose value is an alias of a block."""


class Open:
    """A list or mapping that is being read."""

    def __init__(
        self, path: Path, held: Any, *, root: bool = False, anchor: str | None = None
    ) -> None:
        self.path = path
        self.held = held
        self.key: Any = None
        self.root = root
        self.anchor = anchor
        self.filled_by: yaml.AliasEvent | None = None

    @property
    def wants_key(self) -> bool:
        """Whether a key comes next."""
        return isinstance(self.held, dict) and self.key is None

    def next_path(self) -> Path:
        """Return the path of the value that comes next."""
        if isinstance(self.held, dict):
            names: dict[Any, str] = {Dropped: "?", Filled: "<<"}
            return (*self.path, names.get(self.key, self.key))
        return self.path if self.root else (*self.path, len(self.held))

    def put(self, value: Any) -> None:
        """Take the value that comes next."""
        if isinstance(self.held, dict):
            if self.key is not Dropped:
                self.held[self.key] = value
            self.key = None
        else:
            self.held.append(value)
