"""Delimited text files: a strict reader, and a fast one for files without quotation marks.

The strict reader is Python's own: it knows the line of each row and refuses faulty quotation. Where
a file has no quotation mark, pyarrow reads the same rows five times as fast. The fast reader stops
at the first quotation mark or odd line, and the strict one goes on from there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dppipe.data.reading.bad_records import NOTICE, bad_record
from dppipe.data.reading.files import find_file, open_bytes
from dppipe.data.tables.blocks import Block, Columns, refuse_unknown
from dppipe.data.tables.header import content_rows, first_row
from dppipe.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

CHUNK = 50_000
"""How many rows the strict reader holds as text at once."""
_BLOCK_BYTES = 1 << 22
"""How many bytes the fast reader parses at once."""


@dataclass(frozen=True)
class Layout:
    """How a file is written."""

    delimiter: str
    names: tuple[str, ...] | None
    """The columns' names, or None where the first row has them."""
    comment: str
    """Rows that start with this are skipped; empty for none."""


@dataclass(frozen=True)
class DelimitedFile:
    """A delimited text file, gzipped or not."""

    path: Path
    layout: Layout
    key: str
    """The option that names the file."""

    def header(self) -> tuple[str, ...]:
        """Return the columns' names, stated or from the first row; none of an empty file."""
        if self.layout.names is not None:
            return self.layout.names
        for _, row in self._rows():
            return tuple(name.strip() for name in row)
        return ()

    def _refuse_unknown(self, columns: Columns, names: tuple[str, ...]) -> None:
        in_file = self.layout.names is None
        where = f"in the first row of {self.path}" if in_file else "in data.names"
        refuse_unknown(columns, names, where=where, may_lack_header=in_file)

    def check(self, columns: Columns) -> None:
        """Refuse a file that lacks a column; no row after the header is read.

        Messages show column numbers, never the text of the first row, which may be a record that
        was mistaken for a header.
        """
        names = self.layout.names
        if names is not None:
            find_file(self.path, key=self.key)
        else:
            names = first_row(
                self.path,
                delimiter=self.layout.delimiter,
                comment=self.layout.comment,
                key=self.key,
            )
        if not names:
            raise UsageError(f"{self.path}: expected records, got none. Is it the right file?")
        self._refuse_unknown(columns, names)

    def blocks(self, columns: Columns, *, misfit_notice: str | None) -> Iterator[Block]:
        """Read the wanted columns; see `TableFile.blocks`."""
        names = self.header()
        if not names:
            return
        self._refuse_unknown(columns, names)
        numbers = [names.index(name) for name in columns.values()]
        done = 0
        if not self.layout.comment:
            try:
                for values in self._fast(numbers, width=len(names)):
                    yield Block(values, done)
                    done += len(values[0])
            except Exception:
                pass  # whatever it stumbled over, the strict reader finds its place
            else:
                return
        yield from self._strict(numbers, width=len(names), done=done, misfit_notice=misfit_notice)

    def place(self, row: int, column: str) -> str:
        """Return the line and the column of a value."""
        names = self.header()
        skipped = 0 if self.layout.names is not None else 1
        for number, (line, _) in enumerate(self._rows()):
            if number == row + skipped:
                return f"{self.path}: line {line}, column {names.index(column) + 1} ({column})"
        return f"{self.path}: record {row + 1}, column {names.index(column) + 1} ({column})"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is neither blank nor a comment, with its line, header included."""
        with open_bytes(self.path, key=self.key) as file:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            reader = csv.reader(
                text, delimiter=self.layout.delimiter, skipinitialspace=True, strict=True
            )
            try:
                for row in content_rows(reader, self.layout.comment):
                    yield reader.line_num, row
            except csv.Error as error:
                fault = f"expected delimited text, got a fault: {error}."
                place = f"{self.path}: line {reader.line_num}"
                raise bad_record(place, fault, notice=NOTICE) from None
            except UnicodeDecodeError:
                fault = "expected UTF-8 text, got other bytes. Convert it."
                place = f"{self.path}: after line {reader.line_num}"
                raise bad_record(place, fault, notice=NOTICE) from None

    def _strict(
        self, numbers: Sequence[int], *, width: int, done: int, misfit_notice: str | None
    ) -> Iterator[Block]:
        """Yield blocks of the rows after the first `done` ones."""
        rows = self._rows()
        for _ in range(done if self.layout.names is not None else done + 1):
            next(rows, None)
        pick = itemgetter(*numbers)
        picked: list[Sequence[str]] = []
        broken: list[int] = []
        first = done
        for line, row in rows:
            fits = len(row) == width
            if not fits and misfit_notice is not None:
                fault = f"expected {width} fields, got {len(row)}."
                raise bad_record(f"{self.path}: line {line}", fault, notice=misfit_notice)
            if not fits:
                broken.append(len(picked))
            picked.append(pick(row) if fits else ("",) * len(numbers))
            if len(picked) == CHUNK:
                yield _block(picked, first, broken)
                first += len(picked)
                picked.clear()
                broken.clear()
        if picked:
            yield _block(picked, first, broken)

    def _fast(self, numbers: Sequence[int], *, width: int) -> Iterator[list[pyarrow.Array]]:
        """Yield the texts of some rows at a time; raise at the first quotation mark or odd line."""
        import pyarrow
        from pyarrow import csv as arrow_csv

        names = [str(number) for number in range(width)]
        wanted = [str(number) for number in numbers]
        with open_bytes(self.path, key=self.key) as file:
            _skip_header(file, has_one=self.layout.names is None)
            reader = arrow_csv.open_csv(
                pyarrow.PythonFile(_Unquoted(file), mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, column_names=names
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.layout.delimiter, quote_char=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pyarrow.string()),
                    include_columns=list(dict.fromkeys(wanted)),
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield [batch.column(name) for name in wanted]


def _block(picked: Sequence[Sequence[str]], first: int, broken: Sequence[int]) -> Block:
    import pyarrow

    values = [pyarrow.array(texts, pyarrow.string()) for texts in zip(*picked, strict=True)]
    return Block(values, first, tuple(broken))


class _Unquoted(io.RawIOBase):
    """Passes bytes on until there is a quotation mark among them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        if b'"' in found:
            raise ValueError("expected no quotation mark")
        return found


def _skip_header(file: IO[bytes], *, has_one: bool) -> None:
    """Skip blank lines and the header; raise where lines don't end as usual."""
    line = file.readline() if has_one else b""
    while has_one and not line.strip(b" \t\r\n\xef\xbb\xbf"):
        if not line:
            raise ValueError("expected a header")
        line = file.readline()
    if b"\r" in line.rstrip(b"\r\n"):
        raise ValueError("expected lines that end with a line feed")
