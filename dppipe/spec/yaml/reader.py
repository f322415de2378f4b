"""YAML as plain data with places: YAML 1.2 scalars, and nothing that could surprise.

`1e-5` is a number, `yes` and `off` are strings. Tags, anchors, aliases, repeated keys, integers
with a leading zero and numbers that aren't finite are faults. Every fault is collected with its
line and column; what can still be read is read. The reader walks PyYAML's flat stream of events, so
neither deep nesting nor a hostile file can exhaust it. Read next: `scalars.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from dppipe.spec.yaml.scalars import read_scalar

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
    """What a text holds: plain data, where each key and each value stands, and what couldn't be
    read.
    """

    text: str = ""
    data: Any = None
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True
    """Whether the whole text was read, so that its data are worth looking at."""


def read_yaml(text: str) -> Document:
    """Read one YAML document; faults are in the result, never raised."""
    document = Document(text=text)
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        _give_up(
            document,
            Place(1, 1),
            f"expected at most {MAX_BYTES:,} bytes, got more. A spec is a short file.",
        )
        return document
    try:
        document.data = _Reader(document, yaml.parse(text, Loader=yaml.BaseLoader)).read()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        _give_up(document, place, _syntax_message(error))
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, error.position - before.rfind("\n"))
        _give_up(document, place, "expected text, got a control character. Remove it.")
    return document


def _give_up(document: Document, place: Place, message: str) -> None:
    document.readable = False
    document.faults.append(Fault((), place, message))


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    problem = (error.problem or "unreadable text").removeprefix("could not find ").replace("'", "`")
    if "'\\t'" in (error.problem or ""):
        return "expected spaces, got a tab. YAML doesn't indent with tabs."
    context = f" {error.context}" if error.context else ""
    if (
        error.context_mark
        and error.problem_mark
        and error.context_mark.line < error.problem_mark.line
    ):
        context += f" that begins on line {error.context_mark.line + 1}"
    return (
        f"expected YAML, got a fault{context}: {problem}. Look at this line and the one before it."
    )


class _Stop(Exception):
    """Reading on would make no sense."""


class _Reader:
    """Builds plain data from events, with a stack of its own instead of recursion."""

    def __init__(self, document: Document, events: Iterator[yaml.Event]) -> None:
        self.document = document
        self.events = events
        self.documents = 0

    def read(self) -> Any:
        root: list[Any] = []
        stack = [_Open((), root, root=True)]
        try:
            for event in self.events:
                self._take(event, stack)
        except _Stop:
            self.document.readable = False
        return root[0] if root else None

    def _take(self, event: yaml.Event, stack: list[_Open]) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._fault(
                    (), event, "expected one document, got a second one. Keep one spec in a file."
                )
                raise _Stop
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._node(event, stack)

    def _node(self, event: yaml.NodeEvent, stack: list[_Open]) -> None:
        top = stack[-1]
        if top.wants_key:
            self._key(event, top, stack)
            return
        path = top.next_path()
        self.document.values[path] = _place(event)
        self._check_properties(event, path)
        if isinstance(event, yaml.ScalarEvent):
            top.put(self._scalar(event, path))
        elif isinstance(event, yaml.AliasEvent):
            top.put(None)
        else:
            held: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            top.put(held)
            self._open(_Open(path, held), event, stack)

    def _key(self, event: yaml.NodeEvent, top: _Open, stack: list[_Open]) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            self._fault(
                top.path,
                event,
                "expected a name as key, got a list, a block or an alias. Write a plain name.",
            )
            top.key = _Dropped
            if not isinstance(event, yaml.AliasEvent):
                self._open(
                    _Open(
                        (*top.path, "?"), {} if isinstance(event, yaml.MappingStartEvent) else []
                    ),
                    event,
                    stack,
                )
            return
        key, path = event.value, (*top.path, event.value)
        self._check_properties(event, path)
        if event.style is None and not isinstance(read_scalar(key).value, str):
            after_comma = (
                self.document.text[: event.start_mark.index].endswith(",")
                if event.start_mark
                else False
            )
            advice = (
                "A decimal has a point, not a comma."
                if after_comma
                else "Quote it if it is a name."
            )
            self._fault(path, event, f"expected a name as key, got {key or 'nothing'}. {advice}")
        if key in top.held:
            first = self.document.keys[path].line
            self._fault(
                path,
                event,
                f"expected each key once, got it twice (first on line {first}). Remove one.",
            )
            top.key = _Dropped
            return
        self.document.keys[path] = _place(event)
        top.key = key

    def _open(self, opened: _Open, event: yaml.Event, stack: list[_Open]) -> None:
        if len(stack) > MAX_DEPTH:
            self._fault(
                opened.path,
                event,
                f"expected at most {MAX_DEPTH} levels, got more. Flatten this block.",
            )
            raise _Stop
        stack.append(opened)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        if event.style is not None:
            return event.value
        scalar = read_scalar(event.value)
        if scalar.fault:
            self._fault(path, event, scalar.fault)
        return scalar.value

    def _check_properties(self, event: yaml.NodeEvent, path: Path) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._fault(
                path,
                event,
                f"expected a value, got the alias *{event.anchor}. Write the value out.",
            )
        elif event.anchor:
            self._fault(
                path,
                event,
                f"expected a value, got the anchor &{event.anchor}. Remove it: aliases aren't "
                "read.",
            )
        tag = getattr(event, "tag", None)
        if tag:
            self._fault(
                path,
                event,
                f"expected a value, got the tag {tag}. Remove it: a spec contains plain data only.",
            )

    def _fault(self, path: Path, event: yaml.Event, message: str) -> None:
        if len(self.document.faults) == MAX_FAULTS:
            self.document.faults.append(
                Fault(
                    (),
                    _place(event),
                    "expected fewer faults, got more from here on. Fix these first.",
                )
            )
            raise _Stop
        self.document.faults.append(Fault(path, _place(event), message))


class _Dropped:
    """A key whose value is read and dropped."""


class _Open:
    """A list or mapping that is being read."""

    def __init__(self, path: Path, held: Any, *, root: bool = False) -> None:
        self.path = path
        self.held = held
        self.key: Any = None
        self.root = root

    @property
    def wants_key(self) -> bool:
        return isinstance(self.held, dict) and self.key is None

    def next_path(self) -> Path:
        if isinstance(self.held, dict):
            return (*self.path, "?" if self.key is _Dropped else self.key)
        return self.path if self.root else (*self.path, len(self.held))

    def put(self, value: Any) -> None:
        if isinstance(self.held, dict):
            if self.key is not _Dropped:
                self.held[self.key] = value
            self.key = None
        else:
            self.held.append(value)


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
