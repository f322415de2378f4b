"""Anchors and aliases of one text: `&name` marks a value, `*name` repeats it, and `<<: *name` takes
the keys of a block that aren't written beside it.

An alias becomes a copy of its own, whose inside keeps the places of what was written. All copies of
a text together are limited, so that a short text can't become a huge one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dppipe.spec.yaml.document import MAX_DEPTH, Document, Path

MAX_COPIED = 100_000
"""How many characters all aliases of a text may stand for."""


class AliasFault(Exception):
    """An alias that can't be read; the text says why."""


class TooMuchCopied(AliasFault):
    """Aliases that stand for too much: reading on would make no sense."""


@dataclass
class _Anchored:
    path: Path
    value: Any
    whole: bool
    """Whether its block has ended."""


class Aliases:
    """The anchors of a text, and what its aliases have copied so far."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._anchors: dict[str, _Anchored] = {}
        self._copied = 0

    def anchor(self, name: str, path: Path, value: Any, *, whole: bool) -> str | None:
        """Note what an anchor marks; return what is wrong with the anchor."""
        if name in self._anchors:
            return f"expected each anchor once, got &{name} twice. Rename one."
        self._anchors[name] = _Anchored(path, value, whole)
        return None

    def end(self, name: str) -> None:
        """Note that the block of an anchor has ended."""
        if name in self._anchors:
            self._anchors[name].whole = True

    def repeat(self, name: str, path: Path) -> Any:
        """Return a copy of what an alias stands for, to be put at a path; note its places."""
        found = self._find(name)
        place = self._document.values.get(path)
        value = self._copy(found.value, found.path, path)
        if place is not None:  # an alias itself stands where it is written
            self._document.values[path] = place
        return value

    def fill(self, name: str, block: dict[str, Any], path: Path) -> None:
        """Fill a block with the keys of another one that it doesn't have itself."""
        found = self._find(name)
        if not isinstance(found.value, dict):
            raise AliasFault(f"expected `<<:` with an alias of a block, got *{name} of a value.")
        for key in found.value:
            if key not in block:
                block[key] = self._copy_item(found, key, path)

    def _copy_item(self, found: _Anchored, key: str, path: Path) -> Any:
        self._copy_key((*found.path, key), (*path, key))
        return self._copy(found.value[key], (*found.path, key), (*path, key))

    def _find(self, name: str) -> _Anchored:
        found = self._anchors.get(name)
        if found is None:
            raise AliasFault(
                f"expected the name of an anchor above, got *{name}. Mark a value by &{name}, or "
                "quote this if it is text."
            )
        if not found.whole:
            raise AliasFault(f"expected another value, got the alias *{name} inside of itself.")
        return found

    def _copy(self, value: Any, before: Path, now: Path) -> Any:
        """Copy a value from one path to another."""
        self._count(len(value) if isinstance(value, str) else 1)
        place = self._document.values.get(before)
        if place is not None:
            self._document.values[now] = place
        if not isinstance(value, dict | list):
            return value
        if len(now) > MAX_DEPTH:
            raise TooMuchCopied(
                f"expected at most {MAX_DEPTH} levels with aliases written out, got more. "
                "Flatten this block."
            )
        if isinstance(value, list):
            return [
                self._copy(item, (*before, number), (*now, number))
                for number, item in enumerate(value)
            ]
        copied = {}
        for key, item in value.items():
            self._copy_key((*before, key), (*now, key))
            copied[key] = self._copy(item, (*before, key), (*now, key))
        return copied

    def _copy_key(self, before: Path, now: Path) -> None:
        self._count(len(str(now[-1])))
        place = self._document.keys.get(before)
        if place is not None:
            self._document.keys[now] = place

    def _count(self, characters: int) -> None:
        self._copied += characters + 1
        if self._copied > MAX_COPIED:
            raise TooMuchCopied(
                f"expected aliases that stand for at most {MAX_COPIED:,} characters together, got "
                "more. Write less, or leave aliases out."
            )
