"""Rows of a delimited text file, in pieces, column by column: what can't be read is named by line and column number only.

Values never reach a message, not even as a column name: a first record that was taken for a header would be shown otherwise.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.data.reading.bad_records import NOTICE, bad_record
from dppipe.data.reading.files import open_bytes
from dppipe.errors import Problem, SpecError, UsageError

if TYPE_CHECKING:
    from _csv import Reader

PIECE = 50_000
"""Rows that are held as text at once."""

Columns = Mapping[tuple[str | int, ...], str]
"""The names of the columns that are wanted, each by its key in the spec."""


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
    broken: Sequence[int] = ()
    """The rows of lines with a wrong number of fields; their texts are empty."""

    def fault(self, row: int, message: str) -> UsageError:
        """Return the error of one row of this piece."""
        return bad_record(
            f"{self.path}: line {self.lines[row]}, column {self.number} ({self.column})", message
        )


def read_columns(
    path: Path, *, layout: Layout, columns: Columns, key: str, misfit_notice: str | None
) -> Iterator[list[Cells]]:
    """Read these columns, two or more, of the file that `data.<key>` names, `PIECE` rows at a time.

    `misfit_notice` is said of a line with a wrong number of fields, which is refused; with None such
    a line keeps its place and is listed as broken.
    """
    with open_bytes(path, key=key) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=layout.delimiter, skipinitialspace=True, strict=True)
        try:
            yield from _read(
                reader, path=path, layout=layout, columns=columns, misfit_notice=misfit_notice
            )
        except csv.Error as error:
            fault = f"expected delimited text, got a fault: {error}."
            raise bad_record(f"{path}: line {reader.line_num}", fault, notice=NOTICE) from None
        except UnicodeDecodeError:
            fault = "expected UTF-8 text, got other bytes. Convert it."
            raise bad_record(
                f"{path}: after line {reader.line_num}", fault, notice=NOTICE
            ) from None


def _read(
    reader: Reader, *, path: Path, layout: Layout, columns: Columns, misfit_notice: str | None
) -> Iterator[list[Cells]]:
    rows = _content(reader, layout.comment)
    names = layout.names or tuple(name.strip() for name in next(rows, ()))
    if not names:
        return
    _refuse_unknown(columns, names, path=path, in_header=layout.names is None)
    numbers = [names.index(name) for name in columns.values()]
    pick = itemgetter(*numbers)
    lines: list[int] = []
    picked: list[Sequence[str]] = []
    broken: list[int] = []

    def piece() -> list[Cells]:
        where = zip(columns.values(), numbers, zip(*picked, strict=True), strict=True)
        at, bad = tuple(lines), tuple(broken)
        return [
            Cells(path, name, number + 1, at, [text.strip() for text in texts], bad)
            for name, number, texts in where
        ]

    for row in rows:
        fits = len(row) == len(names)
        if not fits and misfit_notice is not None:
            place = f"{path}: line {reader.line_num}"
            raise bad_record(
                place, f"expected {len(names)} fields, got {len(row)}.", notice=misfit_notice
            )
        if not fits:
            broken.append(len(lines))
        picked.append(pick(row) if fits else ("",) * len(numbers))
        lines.append(reader.line_num)
        if len(lines) == PIECE:
            yield piece()
            lines.clear()
            picked.clear()
            broken.clear()
    if lines:
        yield piece()


def _content(reader: Reader, comment: str) -> Iterator[list[str]]:
    for row in reader:
        blank = not row or (len(row) == 1 and not row[0].strip())
        if not blank and not (comment and row[0].startswith(comment)):
            yield row


def _refuse_unknown(columns: Columns, names: Sequence[str], *, path: Path, in_header: bool) -> None:
    """Refuse columns that aren't there once, all at the same time; near misses are told by their number, never by their text."""
    wrong = {key: name for key, name in columns.items() if names.count(name) != 1}
    known = [name.casefold() for name in names]
    close = {
        key: get_close_matches(name.casefold(), known, n=1)
        for key, name in wrong.items()
        if name not in names
    }
    where = f"in the first row of {path}" if in_header else "in data.names"
    problems = []
    for key, name in wrong.items():
        how = "which stands there more than once" if name in names else "which isn't there"
        hint = f" Did you mean column {known.index(close[key][0]) + 1}?" if close.get(key) else ""
        problems.append(
            Problem(
                key, f"expected one of {len(names)} columns {where}, got {name!r}, {how}.{hint}"
            )
        )
    if (
        in_header and len(close) == len(columns) and not any(close.values())
    ):  # one reason for all: it is said once
        advice = (
            "Is `delimiter` right?"
            if len(names) == 1
            else "Is it a header? If not, set header: false and state names."
        )
        problems = [Problem(problems[0].path, f"{problems[0].message} {advice}")]
    if problems:
        raise SpecError(problems)
