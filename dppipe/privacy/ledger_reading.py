"""Reading a whole ledger: every row, and the bytes of a line that a crash has cut off.

What a ledger alone can't show is that whole last rows are gone; for that its head and the number of
rows stand in checkpoints and summary.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.charges import VERSION, Charge
from dppipe.privacy.ledger_rows import LONGEST_LINE, decode_row, digest


@dataclass(frozen=True)
class LedgerRows:
    """The contents of a ledger: every complete row, and the bytes of a torn last line."""

    charges: tuple[Charge, ...]
    heads: tuple[str, ...]
    """The chain after no row (the plan's hash), after the first row, and so on: what checkpoints
    are compared with."""
    torn: bytes
    """The start of a row that a crash has cut off; it counts as one charge more."""
    size: int
    """The number of bytes up to the torn line."""
    ended: bool = True
    """Whether the file ends with a newline, or is empty."""

    @property
    def head(self) -> str:
        """The SHA-256 of the last complete line, which the next row names as `prev`."""
        return self.heads[-1]

    @property
    def rows(self) -> int:
        """The number of complete rows."""
        return len(self.charges)

    @property
    def last_step(self) -> int:
        """The last step that is charged; 0 where none is."""
        return max((charge.step for charge in self.charges), default=0)

    @property
    def releases(self) -> tuple[Charge, ...]:
        """The charges of releases that aren't steps."""
        return tuple(charge for charge in self.charges if charge.what != "step")


class LedgerCorrupt(PrivacyRefusal):
    """A ledger whose bytes are not what was written; the message names the line."""


def read_ledger(path: Path, *, plan: bytes) -> LedgerRows:
    """Read a whole ledger that starts from this plan.

    Guarantee: what is returned is what was written, as far as the chain can show it; any other byte
    is refused with its line. A last line without newline is complete if its bytes are a whole row,
    else torn.
    """
    try:
        with path.open("rb") as file:
            return read_rows(file, place=path, plan=plan)
    except OSError as error:
        raise UsageError(
            f"{path}: expected a ledger that can be read, got {error.strerror}."
        ) from error


def read_rows(file: BinaryIO, *, place: Path, plan: bytes) -> LedgerRows:
    """Read a ledger's bytes; `place` is what a refusal names."""
    charges: list[Charge] = []
    heads = [digest(plan)]
    size = 0
    ended = True
    while line := file.readline(LONGEST_LINE):
        row = len(charges) + 1
        content = line.removesuffix(b"\n")
        ended = content != line
        try:
            charges.append(decode_row(content, row=row, prev=heads[-1]))
        except ValueError as error:
            if not ended and _may_be_torn(content, row=row):
                return LedgerRows(tuple(charges), tuple(heads), content, size, ended)
            raise LedgerCorrupt(
                f"{place}:{row}: expected an untouched row, but {error}. The ledger can't be "
                "trusted."
            ) from error
        heads.append(digest(content))
        size += len(line)
    return LedgerRows(tuple(charges), tuple(heads), b"", size, ended)


def _may_be_torn(content: bytes, *, row: int) -> bool:
    """Whether these bytes can be the cut-off start of this one row.

    More than one row must never pass for one.
    """
    printable = all(32 <= byte < 127 for byte in content)
    if not printable or len(content) >= LONGEST_LINE or not _starts_like(content, row=row):
        return False
    try:
        json.JSONDecoder().raw_decode(content.decode())
    except (ValueError, RecursionError):
        return content.count(b'{"row":') <= 1
    return False  # a whole object that is not this row was never written


def _starts_like(content: bytes, *, row: int) -> bool:
    """Whether the bytes start as a row of this number does, in this version or in version 1."""
    for start in (f'{{"row":{row},"version":{VERSION},', f'{{"row":{row},"step":'):
        expected = start.encode()
        if content[: len(expected)] == expected[: len(content)]:
            return True
    return False
