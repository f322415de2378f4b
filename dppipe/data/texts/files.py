"""Files of texts: delimited, JSON lines or parquet, gzipped or not.

Rows come in blocks of bounded size. A record that can't be read is refused with its line, or keeps
its place and is marked: texts hold every kind of character, so one bad record mustn't cost a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dppipe.data.reading.bad_records import NOTICE, bad_record
from dppipe.data.reading.files import find_file, open_bytes
from dppipe.data.tables.blocks import Block, Columns, TableFile, refuse_unknown
from dppipe.data.tables.field_lines import Record, field_records
from dppipe.data.tables.header import first_row
from dppipe.data.tables.json_lines import json_records
from dppipe.data.tables.parquet_file import ParquetTable
from dppipe.errors import Problem, SpecError, UsageError

Format = Literal["csv", "tsv", "jsonl", "parquet"]
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
ROWS = 4096
BYTES = 1 << 25
"""A block ends after so many rows, or after about so many bytes of text."""


@dataclass(frozen=True)
class TextLayout:
    """How a file of texts is written."""

    format: Format | None = None
    """None to tell it from the file's name."""
    names: tuple[str, ...] | None = None
    """The columns' names, or None where the first row has them."""
    quotes: bool | None = None
    """Whether fields may stand in quotation marks; None for the format's custom."""


def text_file(path: Path, layout: TextLayout, *, key: str) -> TableFile:
    """Return the file of texts that `data.<key>` names."""
    written = layout.format or _format_of(path, key=key)
    if written == "parquet":
        return ParquetTable(path, key)
    if written == "jsonl":
        return JsonLines(path, key)
    quotes = written == "csv" if layout.quotes is None else layout.quotes
    return FieldLines(path, key, "," if written == "csv" else "\t", layout.names, quotes)


def _format_of(path: Path, *, key: str) -> Format:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    found = _SUFFIXES.get(suffix.lower())
    if found is None:
        message = (
            f"expected a name that ends in {', '.join(_SUFFIXES)}, perhaps with .gz, got "
            f"{path.name}. State data.format, or rename the file."
        )
        raise SpecError([Problem(("data", key), message)])
    return found


@dataclass(frozen=True)
class FieldLines:
    """Delimited text."""

    path: Path
    key: str
    delimiter: str
    names: tuple[str, ...] | None
    quotes: bool

    def header(self) -> tuple[str, ...]:
        """Return the columns' names; no row after the first is read."""
        if self.names is not None:
            find_file(self.path, key=self.key)
            return self.names
        if self.quotes:
            return first_row(self.path, delimiter=self.delimiter, comment="", key=self.key)
        with open_bytes(self.path, key=self.key) as file:
            records = field_records(file, delimiter=self.delimiter, quotes=False)
            first = next(records, Record(1, ()))
        if first.fault is not None:
            raise UsageError(
                f"{self.path}: expected a first row of UTF-8 text that names the columns, got "
                "something else. Is it the right file?"
            )
        return tuple(name.strip() for name in first.fields)

    def check(self, columns: Columns) -> None:
        """Refuse a file that lacks a column; no row after the header is read."""
        names = self.header()
        if not names:
            raise UsageError(f"{self.path}: expected records, got none. Is it the right file?")
        in_file = self.names is None
        where = f"in the first row of {self.path}" if in_file else "in data.names"
        refuse_unknown(columns, names, where=where, may_lack_header=False)

    def blocks(self, columns: Columns, *, misfit_notice: str | None) -> Iterator[Block]:
        """Read the wanted columns; see `TableFile.blocks`."""
        self.check(columns)
        names = self.header()
        numbers = [names.index(name) for name in columns.values()]
        rows = _Rows(len(numbers))
        for record in self._records():
            fault = record.fault
            if fault is None and len(record.fields) != len(names):
                fault = f"expected {len(names)} fields, got {len(record.fields)}."
            notice = NOTICE if record.ends_nowhere else misfit_notice
            if fault is not None and notice is not None:
                raise bad_record(f"{self.path}: line {record.line}", fault, notice=notice)
            if fault is None:
                rows.add([record.fields[number] for number in numbers])
            else:
                rows.add(None)
            if rows.full:
                yield rows.finish()
        if rows.count:
            yield rows.finish()

    def place(self, row: int, column: str) -> str:
        """Return the line and the column of a value."""
        number = self.header().index(column) + 1
        line = 0
        for place, record in enumerate(self._records()):
            line = record.line
            if place == row:
                break
        return f"{self.path}: line {line}, column {number} ({column})"

    def _records(self) -> Iterator[Record]:
        with open_bytes(self.path, key=self.key) as file:
            records = field_records(file, delimiter=self.delimiter, quotes=self.quotes)
            if self.names is None:
                next(records, None)
            yield from records


@dataclass(frozen=True)
class JsonLines:
    """One JSON object a line; its members are the columns."""

    path: Path
    key: str

    def check(self, columns: Columns) -> None:
        """Refuse a file that isn't there; members have names in records only."""
        find_file(self.path, key=self.key)

    def blocks(self, columns: Columns, *, misfit_notice: str | None) -> Iterator[Block]:
        """Read the wanted members; see `TableFile.blocks`."""
        rows = _Rows(len(columns))
        with open_bytes(self.path, key=self.key) as file:
            for line, members, fault in json_records(file, list(columns.values())):
                if fault is not None and misfit_notice is not None:
                    raise bad_record(f"{self.path}: line {line}", fault, notice=misfit_notice)
                rows.add(members if fault is None else None)
                if rows.full:
                    yield rows.finish()
        if rows.count:
            yield rows.finish()

    def place(self, row: int, column: str) -> str:
        """Return the line of a record, and the member."""
        found = 0
        with open_bytes(self.path, key=self.key) as file:
            for place, (line, _, _) in enumerate(json_records(file, [])):
                found = line
                if place == row:
                    break
        return f"{self.path}: line {found}, column {column}"


class _Rows:
    """Rows that are gathered for a block."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._first = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: list[Sequence[str | None]] = []
        self._broken: list[int] = []
        self._bytes = 0

    @property
    def count(self) -> int:
        """The number of rows since the last block."""
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether it is time for a block."""
        return len(self._rows) >= ROWS or self._bytes >= BYTES

    def add(self, values: Sequence[str | None] | None) -> None:
        """Add a row; None for one that can't be read."""
        if values is None:
            self._broken.append(len(self._rows))
        row = (None,) * self._width if values is None else values
        self._bytes += sum(len(value) for value in row if value is not None)
        self._rows.append(row)

    def finish(self) -> Block:
        """Return the rows as a block, and begin another."""
        import pyarrow

        values = [pyarrow.array(texts, pyarrow.string()) for texts in zip(*self._rows, strict=True)]
        block = Block(values, self._first, tuple(self._broken))
        self._first += len(self._rows)
        self._clear()
        return block
