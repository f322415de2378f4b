"""Where a spec's data come from: a file and the `--set` overrides on top of it, so that every
problem can name its place.

A problem in an overridden value is reported by its own place, the `--set` that brought it. Read
next: `layout.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dppipe.errors import Problem
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.yaml.reader import Document, Path, Place, read_yaml


class Located(NamedTuple):
    """A problem that knows its place; `spot` is that place in the file, if it is there."""

    problem: Problem
    spot: Place | None


@dataclass
class Source:
    """A spec as it was given: its data, and the place of each value."""

    name: str
    document: Document
    overrides: dict[Path, str] = field(default_factory=dict)
    """Each path that was set from the command line, with its `--set`."""
    faults: list[Located] = field(default_factory=list)
    """What couldn't be read."""

    @property
    def data(self) -> Any:
        """The plain data, overrides applied."""
        return self.document.data

    def locate(self, problem: Problem) -> Located:
        """Find the place of a problem: its own, or that of the nearest block around it."""
        for length in range(len(problem.path), -1, -1):
            path = problem.path[:length]
            if path in self.overrides:
                return Located(replace(problem, place=self.overrides[path]), None)
            spot = self._spot(path, at_key=problem.at_key, exact=length == len(problem.path))
            if spot is not None:
                return self.at(problem, spot)
        return self.at(problem, Place(1, 1))

    def at(self, problem: Problem, spot: Place) -> Located:
        """Put a problem at a place of the file."""
        return Located(replace(problem, place=f"{self.name}:{spot.line}:{spot.column}"), spot)

    def _spot(self, path: Path, *, at_key: bool, exact: bool) -> Place | None:
        key, value = self.document.keys.get(path), self.document.values.get(path)
        if exact:
            return key if at_key else value
        # Something is missing in a block: blame the block's own key; in a bare name, the name.
        holds_keys = any(
            len(other) == len(path) + 1 and other[:-1] == path for other in self.document.keys
        )
        return key if key and holds_keys else value


def read_source(text: str, *, name: str, overrides: Sequence[str] = ()) -> Source:
    """Read a spec's text and apply the overrides, in their order."""
    source = Source(name, read_yaml(text))
    source.faults += [
        source.at(Problem(fault.path, fault.message), fault.place)
        for fault in source.document.faults
    ]
    if source.document.readable:
        for override in overrides:
            source.faults += [
                Located(replace(problem, place=f"--set {override}"), None)
                for problem in _apply(source, override)
            ]
    return source


def _apply(source: Source, override: str) -> list[Problem]:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        return [Problem((), "expected KEY=VALUE, such as clipping.max_grad_norm=0.5.")]
    value = read_yaml(text)
    if value.faults:
        return [Problem((*parts, *fault.path), fault.message) for fault in value.faults]
    if source.document.data is None:
        source.document.data = {}
    path, problem = put_value(source.data, parts, value.data)
    if problem is not None:
        return [problem]
    source.overrides = {
        other: label for other, label in source.overrides.items() if other[: len(path)] != path
    }
    source.overrides[path] = f"--set {override}"
    for places in (source.document.keys, source.document.values):
        for below in [other for other in places if other[: len(path)] == path]:
            del places[below]
    return []


def put_value(data: Any, parts: Sequence[str], value: Any) -> tuple[Path, Problem | None]:
    """Put a value into the data: a block that isn't there is made, a bare kind becomes a block, a
    digit counts in a list.
    """
    holder, path = data, tuple[str | int, ...]()
    for index, part in enumerate(parts):
        if isinstance(holder, list) and part.isdecimal() and int(part) < len(holder):
            step: Any = int(part)
        elif isinstance(holder, dict):
            step = part
        else:
            got = "a list" if isinstance(holder, list) else repr(holder)
            return path, Problem(
                path,
                f"expected a block to set {part!r} in, got {got}. Set the whole block at once.",
            )
        path = (*path, step)
        if index == len(parts) - 1:
            holder[step] = value
            break
        if isinstance(holder, dict) and holder.get(step) is None:
            holder[step] = {}
        elif isinstance(holder[step], str) and part in FAMILIES:
            holder[step] = {"kind": holder[step]}
        holder = holder[step]
    return path, None
