"""The header of a delimited text file, looked at before any run: the first row, and no other.

Bytes after the header are never decoded, so that nothing in a record can change what is said here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dppipe.data.reading.files import open_bytes
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from _csv import Reader

LONGEST = 16_000_000
"""The most bytes of a line that may be a header."""


def content_rows(reader: Reader, comment: str) -> Iterator[list[str]]:
    """Yield the rows that are neither blank nor comments."""
    for row in reader:
        blank = not row or (len(row) == 1 and not row[0].strip())
        if not blank and not (comment and row[0].startswith(comment)):
            yield row


def first_row(path: Path, *, delimiter: str, comment: str, key: str) -> tuple[str, ...]:
    """Return the names in the first row of a file that `data.<key>` names.

    Guarantee: no row after the first is read.
    """
    with open_bytes(path, key=key) as file:
        reader = csv.reader(_lines(file), delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            row = next(content_rows(reader, comment), [])
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
