"""A starter spec for a table: its columns with their types, and a TODO for each public constant.

Guarantee: of a parquet file only the names and types of the schema are looked at, of a delimited
file only its first line. No row, statistic or number of rows is read.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

from dppipe.data.reading.files import open_bytes
from dppipe.data.tables.parquet_file import ParquetTable
from dppipe.errors import UsageError

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off"}
_DELIMITERS = (",", "\t", ";", "|")
_NUMERIC = "{{column: {name}, lower: TODO, upper: TODO}}    # {type}; TODO: public bounds"
_LINES = {
    "numeric": _NUMERIC,
    "categorical": "{{column: {name}, values: [TODO]}}    # {type}; TODO: or buckets: 64",
    "boolean": "{{column: {name}}}    # {type}",
    "date": "{{column: {name}, earliest: TODO, latest: TODO}}    # {type}; TODO: public bounds",
}
_REST = """\
  # TODO: move the column that is predicted here, and list its classes (none: a regression).
  target: {column: TODO, classes: [TODO, TODO]}
  # TODO: if several rows belong to one person, name the column that says whose each row is, state
  # the number of persons, and take `sampler: user` below:
  # user: TODO
  # users: TODO
model:     {kind: mlp, hidden: [64]}
optimizer: {kind: sgd, lr: 0.25, momentum: 0.9}

sampler:   {kind: poisson, expected_batch_size: 256}  # each record joins each step by its own coin
clipping:  {kind: flat, max_grad_norm: 1.0}           # no record moves a step by more than this
noise:     {kind: constant, noise_multiplier: auto}   # auto: as much as the budget asks for
accountant: {kind: pld}
budget:    {epsilon: 3.0, delta: 1.0e-6}              # delta: below one over the number of records
train:     {epochs: 20}                               # or steps: N, or until: budget
"""


def starter_spec(path: Path) -> str:
    """Return a spec to start from, for a parquet file or a delimited text file."""
    if path.suffix == ".parquet":
        return _for_parquet(path)
    return _for_delimited(path)


def _for_parquet(path: Path) -> str:
    blocks: dict[str, list[str]] = {}
    for field in ParquetTable(path, "path").schema():
        kind = _block_of(field.type)
        line = _LINES[kind].format(name=_scalar(field.name), type=field.type)
        blocks.setdefault(kind, []).append(line)
    lines = ["data:", "  kind: parquet", f"  path: {_scalar(str(path))}"]
    for kind in _LINES:
        if kind in blocks:
            lines.append(f"  {kind}:")
            lines += [f"    - {line}" for line in blocks[kind]]
    return _whole(path, lines)


def _for_delimited(path: Path) -> str:
    names, delimiter = _first_line(path)
    lines = ["data:", "  kind: csv", f"  path: {_scalar(str(path))}"]
    if delimiter != ",":
        lines.append(f"  delimiter: {json.dumps(delimiter)}")
    lines += [
        "  records: TODO    # the number of rows, if it is public",
        "  # TODO: the first line names the columns, not their types. Move each line below to its",
        "  # type (numeric, categorical, ordinal, boolean or date), or delete it.",
        "  numeric:",
    ]
    for name in names:
        lines.append("    - " + _NUMERIC.format(name=_scalar(name), type="TODO: which type?"))
    return _whole(path, lines)


def _whole(path: Path, lines: Iterable[str]) -> str:
    head = [
        f"# A private model of {path.name}. Replace each TODO by what is known without looking at",
        "# the records: constants that are computed from them would be a release of their own.",
        "# Then: dppipe validate, dppipe plan, dppipe run. `dppipe schema` lists all options.",
        "version: 1",
        f"name: {_scalar(path.stem)}",
        "seed: 7    # weights and public splits; never the sampler or the noise",
        "",
    ]
    return "\n".join([*head, *lines, _REST])


def _block_of(kind: object) -> str:
    """Return the block of a column, by its type alone."""
    from pyarrow import types

    if types.is_boolean(kind):
        return "boolean"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "numeric" if is_number else "categorical"


def _first_line(path: Path) -> tuple[list[str], str]:
    """Return the names in a file's first line, and the delimiter that separates most of them."""
    with open_bytes(path, key="path") as file:
        try:
            line = file.readline(1 << 20).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{path}: expected UTF-8 text, got other bytes. Convert it.") from None
    found: list[str] = []
    delimiter = ","
    for each in _DELIMITERS:
        names = next(csv.reader(io.StringIO(line), delimiter=each, skipinitialspace=True), [])
        if len(names) > len(found):
            found = names
            delimiter = each
    names = [name.strip() for name in found]
    if len(names) < 2:
        raise UsageError(
            f"{path}: expected a first line with the names of two columns at least, got fewer. "
            "Is it a table?"
        )
    return names, delimiter


def _scalar(text: str) -> str:
    """Return a text as YAML, quoted where it isn't a plain word."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)
