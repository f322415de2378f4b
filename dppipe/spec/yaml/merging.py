"""Several files as one spec: later ones are laid over earlier ones, and each value keeps its place.

- A block is merged key by key; a list and any other value is replaced.
- A block whose `kind` changes, or whose `class_path` does, replaces the earlier one.
- A bare kind and a block mean the same, `flat` and `{kind: flat}`, where a block can have a kind.
- A file without values changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.yaml.document import Document, Path


class Spot(NamedTuple):
    """A place in one of several files; the file is counted from 0, line and column from 1."""

    file: int
    line: int
    column: int


@dataclass
class Layer:
    """Plain data, and where each key and each value stands."""

    data: Any = None
    keys: dict[Path, Spot] = field(default_factory=dict)
    values: dict[Path, Spot] = field(default_factory=dict)


def layer_of(document: Document, *, file: int) -> Layer:
    """Return what one file holds."""
    keys = {path: Spot(file, *place) for path, place in document.keys.items()}
    values = {path: Spot(file, *place) for path, place in document.values.items()}
    return Layer(document.data, keys, values)


def merge(under: Layer, over: Layer) -> Layer:
    """Return one layer over another; neither is changed."""
    if over.data is None:
        return under
    if under.data is None:
        return over
    changes = _Changes()
    data = changes.merged(under.data, over.data, ())
    values = _kept(under.values, changes.replaced)
    for path in changes.bare_under:
        values[*path, "kind"] = values[path]
    values |= over.values
    for path in changes.bare_over:
        values[*path, "kind"] = values[path]
    return Layer(data, _kept(under.keys, changes.replaced) | over.keys, values)


@dataclass
class _Changes:
    """What happens to the places of two layers that are merged."""

    replaced: set[Path] = field(default_factory=set)
    """Paths whose earlier value is gone."""
    bare_under: list[Path] = field(default_factory=list)
    """Bare kinds of the earlier layer that have become blocks."""
    bare_over: list[Path] = field(default_factory=list)
    """Bare kinds of the later layer that repeat the kind of an earlier block."""

    def merged(self, under: Any, over: Any, path: Path) -> Any:
        """Return the data at a path."""
        if path and path[-1] in FAMILIES:
            if isinstance(under, str) and isinstance(over, dict):
                under = {"kind": under}
                if not _another_kind(under, over):
                    self.bare_under.append(path)
            elif isinstance(under, dict) and isinstance(over, str) and _kind(under) == over:
                over = {"kind": over}
                self.bare_over.append(path)
        if not isinstance(under, dict) or not isinstance(over, dict) or _another_kind(under, over):
            self.replaced.add(path)
            return over
        data = dict(under)
        for key, value in over.items():
            below = (*path, key)
            data[key] = self.merged(under[key], value, below) if key in under else value
        return data


def _kind(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    return block.get("kind", "class_path" if "class_path" in block else None)


def _another_kind(under: dict[str, Any], over: dict[str, Any]) -> bool:
    """Return whether a block names another kind, or another class, than the one below it."""
    now = _kind(over)
    if now is not None and _kind(under) is not None and now != _kind(under):
        return True
    both = "class_path" in under and "class_path" in over
    return both and under["class_path"] != over["class_path"]


def _kept(places: dict[Path, Spot], replaced: set[Path]) -> dict[Path, Spot]:
    """Return the places of what wasn't replaced."""
    if not replaced:
        return dict(places)
    kept = {}
    for path, spot in places.items():
        if not any(path[:length] in replaced for length in range(len(path) + 1)):
            kept[path] = spot
    return kept
