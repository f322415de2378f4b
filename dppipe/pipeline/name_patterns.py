"""Names of parameters and layers that match shell patterns, as the options of a model give them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from dppipe.errors import UsageError

_SHOWN = 5
"""How many names a message lists at most."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def matches_any(pattern: str, names: Iterable[str]) -> bool:
    """Return whether a pattern matches one of the names."""
    return any(fnmatchcase(name, pattern) for name in names)


def refuse_idle(patterns: Iterable[str], names: Collection[str], *, key: str, what: str) -> None:
    """Refuse a pattern that matches none of the names."""
    for pattern in patterns:
        if matches_any(pattern, names):
            continue
        known = "and the model has none that can be named"
        if names:
            known = f"which matches none of {listed(names)}"
        raise UsageError(
            f"model.{key}: expected patterns that each match some {what}, got {pattern!r}, "
            f"{known}. Fix it."
        )


def listed(names: Collection[str]) -> str:
    """Return the first names for a message, and how many more there are."""
    shown = ", ".join([repr(name) for name in names][:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    return shown
