"""YAML as plain data with places: YAML 1.2 scalars, and nothing that could surprise.

`1e-5` is a number, `yes` and `off` are strings. Tags, repeated keys, integers with a leading zero
and numbers that aren't finite are faults. Every fault is collected with its line and column; what
can still be read is read. The reader walks PyYAML's flat stream of events, so neither deep nesting
nor a hostile file can exhaust it. Read next: `scalars.py`, then `aliases.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from dppipe.spec.yaml.aliases import Aliases, AliasFault, TooMuchCopied
from dppipe.spec.yaml.document import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FAULTS,
    Document,
    Fault,
    Path,
    Place,
)
from dppipe.spec.yaml.open_blocks import Dropped, Filled, Open
from dppipe.spec.yaml.scalars import read_scalar


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
        self.aliases = Aliases(document)

    def read(self) -> Any:
        root: list[Any] = []
        stack = [Open((), root, root=True)]
        try:
            for event in self.events:
                self._take(event, stack)
        except _Stop:
            self.document.readable = False
        return root[0] if root else None

    def _take(self, event: yaml.Event, stack: list[Open]) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._fault(
                    (), event, "expected one document, got a second one. Keep one spec in a file."
                )
                raise _Stop
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._close(stack.pop())
        elif isinstance(event, yaml.NodeEvent):
            self._node(event, stack)

    def _node(self, event: yaml.NodeEvent, stack: list[Open]) -> None:
        top = stack[-1]
        if top.wants_key:
            self._key(event, top, stack)
            return
        path = top.next_path()
        self.document.values[path] = _place(event)
        self._check_tag(event, path)
        if top.key is Filled:
            self._fill_later(event, top, stack)
        elif isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
            top.put(value)
            self._anchor(event, path, value)
        elif isinstance(event, yaml.AliasEvent):
            top.put(self._alias(event, path))
        else:
            held: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            top.put(held)
            self._anchor(event, path, held)
            self._open(Open(path, held, anchor=event.anchor), event, stack)

    def _close(self, ended: Open) -> None:
        if ended.filled_by is not None:
            event = ended.filled_by
            try:
                self.aliases.fill(str(event.anchor), ended.held, ended.path)
            except AliasFault as error:
                self._alias_fault((*ended.path, "<<"), event, error)
        if ended.anchor is not None:
            self.aliases.end(ended.anchor)

    def _anchor(self, event: yaml.NodeEvent, path: Path, value: Any) -> None:
        if event.anchor:
            whole = isinstance(event, yaml.ScalarEvent)
            fault = self.aliases.anchor(event.anchor, path, value, whole=whole)
            if fault is not None:
                self._fault(path, event, fault)

    def _alias(self, event: yaml.AliasEvent, path: Path) -> Any:
        try:
            return self.aliases.repeat(str(event.anchor), path)
        except AliasFault as error:
            self._alias_fault(path, event, error)
            return None

    def _alias_fault(self, path: Path, event: yaml.NodeEvent, error: AliasFault) -> None:
        self._fault(path, event, str(error))
        if isinstance(error, TooMuchCopied):
            raise _Stop

    def _fill_later(self, event: yaml.NodeEvent, top: Open, stack: list[Open]) -> None:
        """Note `<<: *name`: its keys are taken when the block ends and its own keys are known."""
        del self.document.values[(*top.path, "<<")]
        top.key = None
        if isinstance(event, yaml.AliasEvent):
            top.filled_by = event
            return
        self._fault(
            (*top.path, "<<"),
            event,
            "expected `<<: *name`, an alias of a block, got another value.",
        )
        if not isinstance(event, yaml.ScalarEvent):
            dropped: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._open(Open((*top.path, "?"), dropped), event, stack)

    def _key(self, event: yaml.NodeEvent, top: Open, stack: list[Open]) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            self._fault(
                top.path,
                event,
                "expected a name as key, got a list, a block or an alias. Write a plain name.",
            )
            top.key = Dropped
            if not isinstance(event, yaml.AliasEvent):
                self._open(
                    Open((*top.path, "?"), {} if isinstance(event, yaml.MappingStartEvent) else []),
                    event,
                    stack,
                )
            return
        key, path = event.value, (*top.path, event.value)
        self._check_tag(event, path)
        if event.anchor:
            self._fault(path, event, "expected a name as key, got an anchor. Mark values only.")
        if key == "<<" and event.style is None and top.filled_by is None:
            top.key = Filled
            return
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
            top.key = Dropped
            return
        self.document.keys[path] = _place(event)
        top.key = key

    def _open(self, opened: Open, event: yaml.Event, stack: list[Open]) -> None:
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

    def _check_tag(self, event: yaml.NodeEvent, path: Path) -> None:
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


def _place(event: yaml.Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
