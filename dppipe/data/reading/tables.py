"""Rows of a delimited text file, in pieces, column by column: what can't be read is named by line and column number only.

Values never reach a message, not even as a column name: a first record that was taken for a header would be shown otherwise.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.data.reading.files import open_bytes
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from _csv import Reader

PIECE = 50_000
"""Rows that are held as text at once."""


@dataclass(frozen=True)
class Layout:
    """How a file is written."""

    delimiter: str
    names: tuple[str, ...] | None
    """The columns' names, or None where the first row gives them."""
    comment: str
    """Rows that start with this are skipped; empty for none."""


@dataclass(frozen=True)
class Cells:
    """Some rows of one column, without the white space around them."""

    path: Path
    column: str
    number: int
    """The column's number in the file, from 1."""
    lines: Sequence[int]
    """Each row's line in the file, from 1."""
    texts: Sequence[str]

    def fault(self, row: int, message: str) -> UsageError:
        """Give the error of one row of this piece."""
        return UsageError(f"{self.path}: line {self.lines[row]}, column {self.number} ({self.column}): {message}")


def read_columns(path: Path, *, layout: Layout, columns: Sequence[str], key: str) -> Iterator[list[Cells]]:
    """Read these columns, two or more, of the file that `data.<key>` names, `PIECE` rows at a time."""
    with open_bytes(path, key=key) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=layout.delimiter, skipinitialspace=True, strict=True)
        try:
            yield from _read(reader, path=path, layout=layout, columns=columns)
        except csv.Error as error:
            raise UsageError(f"{path}: line {reader.line_num}: expected delimited text, got a fault: {error}.") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: after line {reader.line_num}: expected UTF-8 text, got other bytes. Convert it.") from None


def _read(reader: Reader, *, path: Path, layout: Layout, columns: Sequence[str]) -> Iterator[list[Cells]]:
    rows = _content(reader, layout.comment)
    names = layout.names or tuple(name.strip() for name in next(rows, ()))
    if not names:
        return
    numbers = [_find(name, names, path=path, in_header=layout.names is None) for name in columns]
    pick = itemgetter(*numbers)
    lines: list[int] = []
    picked: list[Sequence[str]] = []

    def piece() -> list[Cells]:
        where = zip(columns, numbers, zip(*picked, strict=True), strict=True)
        return [Cells(path, name, number + 1, tuple(lines), [text.strip() for text in texts]) for name, number, texts in where]

    for row in rows:
        if len(row) != len(names):
            raise UsageError(f"{path}: line {reader.line_num}: expected {len(names)} fields, got {len(row)}.")
        picked.append(pick(row))
        lines.append(reader.line_num)
        if len(lines) == PIECE:
            yield piece()
            lines.clear()
            picked.clear()
    if lines:
        yield piece()


def _content(reader: Reader, comment: str) -> Iterator[list[str]]:
    for row in reader:
        blank = not row or (len(row) == 1 and not row[0].strip())
        if not blank and not (comment and row[0].startswith(comment)):
            yield row


def _find(name: str, names: Sequence[str], *, path: Path, in_header: bool) -> int:
    found = [number for number, other in enumerate(names) if other == name]
    if len(found) != 1:
        where = "the file's first row" if in_header else "data.names"
        how = "no" if not found else "more than one"
        advice = " Is that row really a header? If not, set header: false and state names." if in_header else ""
        raise UsageError(
            f"{path}: expected one column named {name!r} in {where}, which has {len(names)} columns, got {how} such.{advice}"
        )
    return found[0]
