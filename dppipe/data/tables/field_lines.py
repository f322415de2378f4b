"""Records of delimited text, split from bytes, so that a broken one can be dropped alone.

Where a record ends is decided on the bytes: at a line feed outside quotation marks. A record that
is too long is skipped while it is read, so memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

LONGEST = 1 << 24
"""The most bytes of one record."""
_PIECE = 1 << 20
BAD_TEXT = "expected UTF-8 text, got other bytes. Convert it."
TOO_LONG = f"expected a record of at most {LONGEST >> 20} MiB, got a longer one."
_STRAY = "expected a delimiter after a closing quotation mark, got something else."
_UNCLOSED = "expected a quotation mark that closes a field, got the end of the file."


@dataclass(frozen=True)
class Record:
    """One record of a file."""

    line: int
    """The line on which it begins, from 1."""
    fields: tuple[str, ...]
    fault: str | None = None
    """What is wrong with it, without a value."""
    ends_nowhere: bool = False
    """Whether nobody can tell where the record ends, so that it can't be dropped."""


@dataclass(frozen=True)
class Line:
    """One line of a file."""

    number: int
    data: bytes
    """With its line feed; empty where the line is too long."""
    too_long: bool = False
    has_quotes: bool = False


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """Yield the lines of a file; one that is too long is skipped."""
    number = 0
    while data := file.readline(LONGEST):
        number += 1
        if number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        has_quotes = b'"' in data
        if len(data) < LONGEST - 3 or data.endswith(b"\n"):
            yield Line(number, data, has_quotes=has_quotes)
            continue
        while data and not data.endswith(b"\n"):
            data = file.readline(_PIECE)
            has_quotes = has_quotes or b'"' in data
        yield Line(number, b"", too_long=True, has_quotes=has_quotes)


def field_records(file: IO[bytes], *, delimiter: str, quotes: bool) -> Iterator[Record]:
    """Yield the records of a file; blank lines are none.

    Args:
        file: The bytes.
        delimiter: The character that separates fields.
        quotes: Whether a field that starts with a quotation mark ends with one, and may hold
            delimiters, line feeds and doubled quotation marks between them.
    """
    separator = delimiter.encode()
    open_record: _Quoted | None = None
    first = 0
    for line in lines_of(file):
        if open_record is None:
            first = line.number
            if not line.too_long and not line.data.strip(b"\r\n"):
                continue
        if line.too_long:
            unclear = open_record is not None or (quotes and line.has_quotes)
            yield Record(first, (), TOO_LONG, ends_nowhere=unclear)
        elif open_record is None and not (quotes and line.has_quotes):
            yield _decoded(first, line.data.rstrip(b"\r\n").split(separator))
        else:
            open_record = open_record or _Quoted(separator)
            if open_record.take(line.data):
                yield open_record.finished(first)
                open_record = None
    if open_record is not None:
        yield Record(first, (), _UNCLOSED, ends_nowhere=True)


class _Quoted:
    """A record whose fields may be quoted, taken line by line."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._fields: list[bytes] = []
        self._open: bytearray | None = None
        self._size = 0
        self._fault: str | None = None

    def take(self, line: bytes) -> bool:
        """Take one more line; return whether the record ends with it."""
        self._size += len(line)
        if self._size > LONGEST:  # go on only to find its end
            self._fault = TOO_LONG
            self._fields.clear()
        place = 0
        while place >= 0:
            if self._open is None:
                place = self._take_plain(line, place)
            else:
                place = self._take_quoted(line, place)
        return self._open is None

    def finished(self, line: int) -> Record:
        """Return the record."""
        if self._fault is not None:
            return Record(line, (), self._fault)
        return _decoded(line, self._fields)

    def _take_plain(self, line: bytes, place: int) -> int:
        """Take a field from its start; return where to go on, or -1 at the end of the line."""
        start = place
        while line[start : start + 1] == b" ":
            start += 1
        if line[start : start + 1] == b'"':
            self._open = bytearray()
            return start + 1
        end = line.find(self._separator, place)
        if end < 0:
            self._fields.append(line[place:].rstrip(b"\r\n"))
            return -1
        self._fields.append(line[place:end])
        return end + 1

    def _take_quoted(self, line: bytes, place: int) -> int:
        """Take what is inside quotation marks."""
        inside = self._open if self._open is not None else bytearray()
        end = line.find(b'"', place)
        text = line[place:] if end < 0 else line[place:end]
        if self._fault is None:
            inside += text
        if end < 0:
            return -1
        if line[end + 1 : end + 2] == b'"':
            inside += b'"'
            return end + 2
        after = line.find(self._separator, end + 1)
        rest = line[end + 1 :] if after < 0 else line[end + 1 : after]
        if rest.strip(b" \r\n"):
            self._fault = self._fault or _STRAY
        self._fields.append(bytes(inside))
        self._open = None
        return -1 if after < 0 else after + 1


def _decoded(line: int, fields: list[bytes]) -> Record:
    try:
        return Record(line, tuple(field.decode() for field in fields))
    except UnicodeDecodeError:
        return Record(line, (), BAD_TEXT)
