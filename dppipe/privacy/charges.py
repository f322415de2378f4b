"""A ledger as bytes: one charge a line, each line chained to the one before.

`dppipe.runs.ledger` writes it. The canonical line of a charge is compact JSON (no spaces, ASCII,
keys in the order of FIELDS, floats by their shortest exact decimal). `prev` is the SHA-256 of the
previous line's bytes without newline, of plan.json's bytes for the first. `hash` is the SHA-256 of
the line's own bytes with `,"hash":"..."` cut out, so of `{"row":...,"prev":"..."}`. Every line ends
with one newline. A line is accepted only if encoding what was read gives the very same bytes: so
every changed byte is found. What a ledger alone can't show is that whole last rows are gone; for
that `head` and the number of rows stand in checkpoints and summary.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, get_args

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.plain import event_from_data, event_to_data

if TYPE_CHECKING:
    from dp_accounting import DpEvent

FIELDS = (
    "row",
    "step",
    "event",
    "mechanism",
    "sampler",
    "sample_rate",
    "noise_multiplier",
    "max_grad_norm",
    "relation",
    "unit",
    "count",
    "epsilon",
    "prev",
    "hash",
)
"""The fields of a row, in order; a row that stands for a torn line has the torn bytes as `torn`
before `prev`."""

_NOT_OF_THE_CHARGE = ("row", "event", "prev", "hash")
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one step costs, as the ledger keeps it."""

    step: int
    """Counted from 1; 0 for what is released before the first step."""
    event: DpEvent
    mechanism: str
    sampler: str
    sample_rate: float
    noise_multiplier: float
    max_grad_norm: float
    relation: Relation
    unit: str
    count: int
    """How many times the event is charged: 1, or 0 on the steps of an epoch that its first step has
    paid for."""
    epsilon: float
    """A certified upper bound on all charges up to this one, at the budget's delta."""


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


class LedgerCorrupt(PrivacyRefusal):
    """A ledger whose bytes are not what was written; the message names the line."""


def charged_steps(charges: Iterable[Charge]) -> list[tuple[DpEvent, int]]:
    """Return what was charged as steps for an accountant.

    Each is an event and how many times it was charged in a row.
    """
    steps: list[tuple[DpEvent, int]] = []
    for event, run in groupby(charges, key=lambda charge: charge.event):
        count = sum(charge.count for charge in run)
        if count:
            steps.append((event, count))
    return steps


def digest(data: bytes) -> str:
    """Return the lower-case hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def encode_row(
    charge: Charge, *, row: int, prev: str, torn: str = "", event: dict[str, Any] | None = None
) -> bytes:
    """Return a row's canonical line without its newline.

    `event` is the event's plain data, where it is known already.
    """
    data: dict[str, Any] = {
        "row": row,
        "step": _whole("step", charge.step, least=0),
        "event": event_to_data(charge.event) if event is None else event,
        "mechanism": str(charge.mechanism),
        "sampler": str(charge.sampler),
        "sample_rate": _positive("sample_rate", charge.sample_rate),
        "noise_multiplier": _positive("noise_multiplier", charge.noise_multiplier),
        "max_grad_norm": _positive("max_grad_norm", charge.max_grad_norm),
        "relation": str(charge.relation),
        "unit": str(charge.unit),
        "count": _whole("count", charge.count, least=0),
        "epsilon": 0.0 if charge.epsilon == 0 else _positive("epsilon", charge.epsilon),
    }
    if charge.relation not in get_args(Relation):
        raise PrivacyRefusal(
            f"ledger: relation: expected one of {', '.join(get_args(Relation))}, got "
            f"{charge.relation!r}."
        )
    if torn:
        data["torn"] = torn
    body = json.dumps(data | {"prev": prev}, separators=(",", ":"), allow_nan=False).encode()
    line = body[:-1] + b',"hash":"' + digest(body).encode() + b'"}'
    if len(line) >= _LONGEST_LINE:
        raise PrivacyRefusal(
            f"ledger: row {row}: expected less than {_LONGEST_LINE} bytes, got {len(line)}. "
            "Shorten its names."
        )
    return line


def decode_row(line: bytes, *, row: int, prev: str) -> Charge:
    """Read a line back; it must be exactly this row's canonical line.

    Anything else is a ValueError that says what is wrong.
    """
    try:
        data = json.loads(line)
        given = {name: data[name] for name in FIELDS if name not in _NOT_OF_THE_CHARGE}
        charge = Charge(event=event_from_data(data["event"]), **given)
        again = encode_row(charge, row=row, prev=prev, torn=data.get("torn", ""))
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        PrivacyRefusal,
    ) as error:
        raise ValueError("it is not a row of a ledger") from error
    if again == line:
        return charge
    if data.get("prev") != prev:
        raise ValueError(
            "prev is not the hash of what stands before it: a row was taken out or put in"
        )
    raise ValueError("its content is not what its hash names")


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
    while line := file.readline(_LONGEST_LINE):
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
    start = f'{{"row":{row},"step":'.encode()
    printable = all(32 <= byte < 127 for byte in content)
    if (
        not printable
        or len(content) >= _LONGEST_LINE
        or content[: len(start)] != start[: len(content)]
    ):
        return False
    try:
        json.JSONDecoder().raw_decode(content.decode())
    except (ValueError, RecursionError):
        return content.count(b'{"row":') <= 1
    return False  # a whole object that is not this row was never written


def _positive(name: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not math.isfinite(value)
        or value <= 0
    ):
        raise PrivacyRefusal(
            f"ledger: {name}: expected a finite number > 0, got {value!r}. Nothing was charged or "
            "released."
        )
    return float(value)


def _whole(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise PrivacyRefusal(
            f"ledger: {name}: expected an integer >= {least}, got {value!r}. Nothing was charged "
            "or released."
        )
    return int(value)
