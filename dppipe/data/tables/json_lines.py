"""Records of JSON lines: one object a line, of which some members are wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

from dppipe.data.tables.field_lines import BAD_TEXT, TOO_LONG, lines_of

Members = tuple[int, tuple[str | None, ...], str | None]
"""The line of a record, its wanted members as texts, and what is wrong with it."""


def json_records(file: IO[bytes], names: Sequence[str]) -> Iterator[Members]:
    """Yield the wanted members of each object; one that isn't there is None."""
    nothing = (None,) * len(names)
    for line in lines_of(file):
        if line.too_long:
            yield line.number, nothing, TOO_LONG
        elif line.data.strip():
            try:
                yield line.number, _members(line.data, names), None
            except UnicodeError:
                yield line.number, nothing, BAD_TEXT
            except (ValueError, RecursionError):
                fault = "expected a JSON object on one line, got something else."
                yield line.number, nothing, fault
            except TypeError:
                fault = "expected texts and numbers in the wanted columns, got something else."
                yield line.number, nothing, fault


def _members(data: bytes, names: Sequence[str]) -> tuple[str | None, ...]:
    found = json.loads(data.decode())
    if not isinstance(found, dict):
        raise ValueError("expected an object")
    return tuple(_as_text(found.get(name)) for name in names)


def _as_text(value: Any) -> str | None:
    """Return a text, a number or a truth value as a text."""
    if value is None:
        return None
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair is no text
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise TypeError("expected a text or a number")
