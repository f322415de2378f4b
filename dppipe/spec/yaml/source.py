"""Where a spec's data come from: files that are laid over each other, and the `--set` overrides on
top of them, so that every problem can name its place.

A problem in an overridden value is reported by its own place, the `--set` that brought it. Read
next: `merging.py`, then `layout.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from dppipe.errors import Problem
from dppipe.spec.kinds.families import FAMILIES
from dppipe.spec.yaml.document import Path
from dppipe.spec.yaml.merging import Layer, Spot, layer_of, merge
from dppipe.spec.yaml.reader import read_yaml


class Located(NamedTuple):
    """A problem that knows its place; `spot` is that place in the files, if it is there."""

    problem: Problem
    spot: Spot | None


@dataclass(frozen=True)
class SpecFile:
    """One file of a spec."""

    name: str
    """The file as messages name it."""
    text: str
    folder: FilePath | None = None
    """Where paths that start with `./` begin; None where the text is from no file."""


@dataclass
class Source:
    """A spec as it was given: its data, and the place of each value."""

    files: tuple[SpecFile, ...]
    layer: Layer = field(default_factory=Layer)
    readable: bool = True
    """Whether all files were read as a whole, so that their data are worth looking at."""
    overrides: dict[Path, str] = field(default_factory=dict)
    """Each path that was set from the command line, with its `--set`."""
    faults: list[Located] = field(default_factory=list)
    """What couldn't be read."""

    @property
    def data(self) -> Any:
        """The plain data, overrides applied."""
        return self.layer.data

    def locate(self, problem: Problem) -> Located:
        """Find the place of a problem: its own, or that of the nearest block around it."""
        for length in range(len(problem.path), -1, -1):
            path = problem.path[:length]
            if path in self.overrides:
                return Located(replace(problem, place=self.overrides[path]), None)
            spot = self._spot(path, at_key=problem.at_key, exact=length == len(problem.path))
            if spot is not None:
                return self.at(problem, spot)
        return self.at(problem, Spot(0, 1, 1))

    def at(self, problem: Problem, spot: Spot) -> Located:
        """Put a problem at a place of a file."""
        return Located(replace(problem, place=self.place(spot)), spot)

    def place(self, spot: Spot) -> str:
        """Return a place as messages name it."""
        return f"{self.files[spot.file].name}:{spot.line}:{spot.column}"

    def holder(self, path: Path) -> FilePath | None:
        """Return the folder of the file that holds a value; of an override, the working directory.

        None for text from no file.
        """
        for length in range(len(path), -1, -1):
            if path[:length] in self.overrides:
                return FilePath.cwd()
            spot = self.layer.values.get(path[:length])
            if spot is not None:
                return self.files[spot.file].folder
        return None

    def _spot(self, path: Path, *, at_key: bool, exact: bool) -> Spot | None:
        key, value = self.layer.keys.get(path), self.layer.values.get(path)
        if exact:
            return key if at_key else value
        # Something is missing in a block: blame the block's own key; in a bare name, the name.
        holds_keys = any(
            len(other) == len(path) + 1 and other[:-1] == path for other in self.layer.keys
        )
        return key if key and holds_keys else value


def read_source(files: Sequence[SpecFile], *, overrides: Sequence[str] = ()) -> Source:
    """Read the files of a spec, lay each over those before it, and apply the overrides in order."""
    source = Source(tuple(files))
    for number, file in enumerate(files):
        document = read_yaml(file.text)
        source.readable = source.readable and document.readable
        for fault in document.faults:
            spot = Spot(number, *fault.place)
            source.faults.append(source.at(Problem(fault.path, fault.message), spot))
        source.layer = merge(source.layer, layer_of(document, file=number))
    if source.readable:
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
    if source.layer.data is None:
        source.layer.data = {}
    path, problem = put_value(source.data, parts, value.data)
    if problem is not None:
        return [problem]
    source.overrides = {
        other: label for other, label in source.overrides.items() if other[: len(path)] != path
    }
    source.overrides[path] = f"--set {override}"
    for places in (source.layer.keys, source.layer.values):
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
