"""What a YAML text holds: plain data, where each key and value stands, and what is unreadable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
MAX_FAULTS = 100

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A place in a text; both are counted from 1."""

    line: int
    column: int


class Fault(NamedTuple):
    """Something that can't be read."""

    path: Path
    place: Place
    message: str


@dataclass
class Document:
    """What a text holds."""

    text: str = ""
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True
    """Whether the whole text was read, so that its data are worth looking at."""
