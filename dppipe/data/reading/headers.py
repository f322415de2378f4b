"""The header of a delimited text file, looked at before any run: the first row, and no other.

Bytes after the header are never decoded, so that nothing in a record can change what is said here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dppipe.data.reading.files import find_file, open_bytes
from dppipe.data.reading.tables import Columns, Layout, content_rows, refuse_unknown
from dppipe.errors import UsageError

LONGEST = 16_000_000
"""The most bytes of a line that may be a header."""


def check_header(path: Path, *, layout: Layout, columns: Columns, key: str) -> None:
    """Refuse a file that `data.<key>` names if it is missing or lacks a column.

    Guarantee: no row after the header is read. Messages show column numbers, never the text of the
    first row, which may be a record that was mistaken for a header.
    """
    if layout.names is not None:
        find_file(path, key=key)
        refuse_unknown(columns, layout.names, path=path, in_header=False)
        return
    names = _first_row(path, layout=layout, key=key)
    if not names:
        raise UsageError(f"{path}: expected records, got none. Is it the right file?")
    refuse_unknown(columns, names, path=path, in_header=True)


def _first_row(path: Path, *, layout: Layout, key: str) -> tuple[str, ...]:
    with open_bytes(path, key=key) as file:
        reader = csv.reader(
            _lines(file), delimiter=layout.delimiter, skipinitialspace=True, strict=True
        )
        try:
            row = next(content_rows(reader, layout.comment), [])
        except (csv.Error, UnicodeDecodeError):
            raise UsageError(
                f"{path}: expected a first row of UTF-8 text that names the columns, got something "
                "else. Is it the right file?"
            ) from None
    return tuple(name.strip() for name in row)


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Yield a file's lines one by one, with their ends; nothing is decoded before it is asked for.

    A line that ends in a bare carriage return ends there, as it does when records are read.
    """
    encoding = "utf-8-sig"
    while line := file.readline(LONGEST):
        first, *others = line.splitlines(keepends=True)
        if len(first) == LONGEST:
            raise csv.Error("a line without an end")
        yield first.decode(encoding)
        encoding = "utf-8"
        for other in others:
            yield other.decode(encoding)
