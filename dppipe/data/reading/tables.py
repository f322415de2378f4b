"""Rows of a delimited text file, some at a time, column by column.

Errors show line and column numbers only. Values never reach a message, not even as a column name:
otherwise a first record that was mistaken for a header would be shown.
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

CHUNK = 50_000
"""How many rows are held as text at once."""

Columns = Mapping[tuple[str | int, ...], str]
"""The names of the columns that are wanted, each by its key in the spec."""


@dataclass(frozen=True)
class Layout:
    """How a file is written."""

    delimiter: str
    names: tuple[str, ...] | None
    """The columns' names, or None where the first row has them."""
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
        """Return the error of one of these rows."""
        return bad_record(
            f"{self.path}: line {self.lines[row]}, column {self.number} ({self.column})", message
        )


def read_columns(
    path: Path, *, layout: Layout, columns: Columns, key: str, misfit_notice: str | None
) -> Iterator[list[Cells]]:
    """Read two or more columns of the file that `data.<key>` names, `CHUNK` rows at a time.

    A line with a wrong number of fields is refused, and the message ends with `misfit_notice`. If
    that is None, the line keeps its place and is listed as broken.
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
    rows = content_rows(reader, layout.comment)
    names = layout.names or tuple(name.strip() for name in next(rows, ()))
    if not names:
        return
    refuse_unknown(columns, names, path=path, in_header=layout.names is None)
    numbers = [names.index(name) for name in columns.values()]
    pick = itemgetter(*numbers)
    lines: list[int] = []
    picked: list[Sequence[str]] = []
    broken: list[int] = []

    def make_cells() -> list[Cells]:
        made = []
        texts_by_column = zip(*picked, strict=True)
        for name, number, texts in zip(columns.values(), numbers, texts_by_column, strict=True):
            stripped = [text.strip() for text in texts]
            made.append(Cells(path, name, number + 1, tuple(lines), stripped, tuple(broken)))
        return made

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
        if len(lines) == CHUNK:
            yield make_cells()
            lines.clear()
            picked.clear()
            broken.clear()
    if lines:
        yield make_cells()


def content_rows(reader: Reader, comment: str) -> Iterator[list[str]]:
    """Yield the rows that are neither blank nor comments."""
    for row in reader:
        blank = not row or (len(row) == 1 and not row[0].strip())
        if not blank and not (comment and row[0].startswith(comment)):
            yield row


def refuse_unknown(columns: Columns, names: Sequence[str], *, path: Path, in_header: bool) -> None:
    """Refuse all columns that aren't there exactly once.

    A near miss is shown by its number, never by its text.
    """
    where = f"in the first row of {path}" if in_header else "in data.names"
    problems = []
    unlike_any = 0
    for key, name in columns.items():
        if names.count(name) == 1:
            continue
        expected = f"expected one of {len(names)} columns {where}, got {name!r}"
        if name in names:
            problems.append(Problem(key, f"{expected}, which is there more than once."))
            continue
        close = _close_column(name, names)
        unlike_any += close is None
        hint = "" if close is None else f" Did you mean column {close}?"
        problems.append(Problem(key, f"{expected}, which isn't there.{hint}"))
    if in_header and unlike_any == len(columns):  # one reason for all of them
        advice = "Is it a header? If not, set header: false and state names."
        if len(names) == 1:
            advice = "Is `delimiter` right?"
        problems = [Problem(problems[0].path, f"{problems[0].message} {advice}")]
    if problems:
        raise SpecError(problems)


def _close_column(name: str, names: Sequence[str]) -> int | None:
    """Return the number, from 1, of the column whose name is most similar; None for none."""
    known = [each.casefold() for each in names]
    close = get_close_matches(name.casefold(), known, n=1)
    return known.index(close[0]) + 1 if close else None
