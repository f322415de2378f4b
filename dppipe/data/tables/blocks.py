"""Some rows of a table, column by column, as pyarrow reads them.

A block holds texts (delimited files) or values of the file's own types (parquet). Columns turn them
into numbers (`dppipe/data/columns`). A message names a row by its place in the file, never by a
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dppipe.errors import Problem, SpecError

if TYPE_CHECKING:
    import pyarrow

Columns = Mapping[tuple[str | int, ...], str]
"""The names of the columns that are wanted, each by its key in the spec."""


@dataclass(frozen=True)
class Block:
    """Some rows of the wanted columns."""

    values: Sequence[pyarrow.Array]
    """One array for each wanted column, in their order."""
    first: int
    """The number of the first row in the file, from 0."""
    broken: Sequence[int] = ()
    """The rows of lines with a wrong number of fields; their values are missing."""

    def __len__(self) -> int:
        return len(self.values[0])


class TableFile(Protocol):
    """A file that holds a table."""

    @property
    def path(self) -> Path:
        """Where the file is."""

    def check(self, columns: Columns) -> None:
        """Refuse a file that lacks a column, by its header or schema alone."""

    def blocks(self, columns: Columns, *, misfit_notice: str | None) -> Iterator[Block]:
        """Read the wanted columns, some rows at a time.

        A line with a wrong number of fields is refused, and the message ends with `misfit_notice`.
        If that is None, the line keeps its place and is listed as broken.
        """

    def place(self, row: int, column: str) -> str:
        """Return where a value is, for a message; rows are numbered from 0."""


def refuse_unknown(
    columns: Columns, names: Sequence[str], *, where: str, may_lack_header: bool = False
) -> None:
    """Refuse all columns that aren't there exactly once.

    A near miss is shown by its number, never by its text: a first record that was mistaken for a
    header would be shown.
    """
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
    if may_lack_header and unlike_any == len(columns):  # one reason for all of them
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
