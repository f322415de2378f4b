"""Broken tables: each is refused at its place before anything is charged or written, without a value; with `drop` a run either completes or the whole file is refused."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from dppipe.cli.app import app

SECRET = "8191secret"
RECORDS = 60
BAD = 41
"""The row that is broken, from 0: line 43 of a CSV file with a header."""
LINES = [
    f"{20 + row},{'ABC'[row % 3]},{row % 2},{'yes' if row % 4 else 'no'}" for row in range(RECORDS)
]
HEADER = "age,ward,smoker,ill"
SPEC = """\
version: 1
name: broken
data:
  kind: KIND
  path: TABLE
  records: 60
  numeric: [{column: age, lower: 0, upper: 110}]
  categorical: [{column: ward, values: [A, B, C], other: refuse, absent: refuse}]
  boolean: [{column: smoker}]
  target: {column: ill, classes: ["no", "yes"]}
  on_bad_record: POLICY
model: {kind: mlp, hidden: [4]}
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, expected_batch_size: 10}
noise: {kind: constant, noise_multiplier: 4.0}
accountant: rdp
budget: {epsilon: 20, delta: 1.0e-3}
train: {steps: 2}
"""


@dataclass(frozen=True)
class Broken:
    """A broken file, and how it is refused."""

    name: str
    content: bytes
    message: str
    droppable: bool = True


def csv_with(line: str, header: str = HEADER) -> bytes:
    return "\n".join([header, *LINES[:BAD], line, *LINES[BAD + 1 :], ""]).encode()


def table(**changed: list[object]) -> pyarrow.Table:
    columns: dict[str, list[object]] = {
        "age": [float(20 + row) for row in range(RECORDS)],
        "ward": ["ABC"[row % 3] for row in range(RECORDS)],
        "smoker": [bool(row % 2) for row in range(RECORDS)],
        "ill": ["yes" if row % 4 else "no" for row in range(RECORDS)],
    }
    return pyarrow.table(columns | changed)


def parquet_of(made: pyarrow.Table) -> bytes:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(made, sink)
    return bytes(sink.getvalue())


def one(name: str, value: object) -> bytes:
    """Return a parquet file in which one value differs."""
    values = table()[name].to_pylist()
    values[BAD] = value
    return parquet_of(table(**{name: values}))


WHOLE = "\n".join([HEADER, *LINES, ""]).encode()
ROW = r"t\.parquet: row 42, column"
CASES = (
    Broken(
        "a text for a number",
        csv_with(f"{SECRET},A,1,yes"),
        r"line 43, column 1 \(age\): expected a number, got another text",
    ),
    Broken(
        "an infinity",
        csv_with("1e999,A,1,yes"),
        r"line 43, column 1 \(age\): expected a finite number",
    ),
    Broken("nan", csv_with("nan,A,1,yes"), r"line 43, column 1 \(age\): expected a finite number"),
    Broken(
        "a missing number",
        csv_with(",A,1,yes"),
        r"line 43, column 1 \(age\): expected a number, got a missing value",
    ),
    Broken(
        "an unknown category",
        csv_with(f"30,{SECRET},1,yes"),
        r"line 43, column 2 \(ward\): expected one of the 3 listed values",
    ),
    Broken(
        "a missing category",
        csv_with("30,,1,yes"),
        r"line 43, column 2 \(ward\): expected a value, got a missing one",
    ),
    Broken(
        "no truth value",
        csv_with(f"30,A,{SECRET},yes"),
        r"line 43, column 3 \(smoker\): expected yes or no",
    ),
    Broken(
        "an unknown class",
        csv_with(f"30,A,1,{SECRET}"),
        r"line 43, column 4 \(ill\): expected one of the 2 classes",
    ),
    Broken(
        "a missing class", csv_with("30,A,1,"), r"line 43, column 4 \(ill\): .*got a missing value"
    ),
    Broken("too few fields", csv_with(f"30,{SECRET}"), r"line 43: expected 4 fields, got 2"),
    Broken(
        "too many fields", csv_with(f"30,A,1,yes,{SECRET}"), r"line 43: expected 4 fields, got 5"
    ),
    Broken(
        "an open quotation mark",
        csv_with(f'30,"{SECRET},1,yes'),
        r"t\.csv: line \d+: expected delimited text",
        droppable=False,
    ),
    Broken(
        "bytes that are no text",
        csv_with("30,A,1,yes").replace(b"30,A,1,yes", b"30,\xff\xfe,1,yes", 1),
        r"t\.csv: after line \d+: expected UTF-8 text",
        droppable=False,
    ),
    Broken("a huge field", csv_with(f"30,{SECRET * 20_000},1,yes"), r"t\.csv: line 43"),
    Broken("a null byte", csv_with(f"30,A\0{SECRET},1,yes"), r"t\.csv: line 43"),
    Broken(
        "another number of rows",
        "\n".join([HEADER, *LINES[:-1], ""]).encode(),
        r"data\.records: expected the number of records in the data, 59",
        droppable=False,
    ),
    Broken("an empty file", b"", r"t\.csv: expected records, got none", droppable=False),
    Broken(
        "a header alone",
        f"{HEADER}\n".encode(),
        r"t\.csv: expected records, got none",
        droppable=False,
    ),
    Broken(
        "no header",
        "\n".join([*LINES, ""]).encode(),
        r"data\.numeric\.0\.column: .*'age', which isn't there",
        droppable=False,
    ),
    Broken(
        "a missing column",
        WHOLE.replace(b"ward", b"wart", 1),
        r"data\.categorical\.0\.column: .*'ward', which isn't there. Did you mean column 2",
        droppable=False,
    ),
    Broken(
        "a column twice",
        WHOLE.replace(b"smoker", b"age", 1),
        r"data\.numeric\.0\.column: .*'age', which is there more than once",
        droppable=False,
    ),
    Broken(
        "another separator", WHOLE.replace(b",", b";"), r"Is `delimiter` right", droppable=False
    ),
    Broken(
        "a cut gzip file",
        gzip.compress(WHOLE)[:-20],
        r"t\.csv: expected a whole gzip file",
        droppable=False,
    ),
    Broken(
        "another kind of file",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + SECRET.encode() * 9,
        r"t\.csv: after line 0: expected UTF-8 text",
        droppable=False,
    ),
    Broken("parquet: nan", one("age", float("nan")), rf"{ROW} age: expected a finite number"),
    Broken(
        "parquet: null", one("age", None), rf"{ROW} age: expected a number, got a missing value"
    ),
    Broken(
        "parquet: an unknown category", one("ward", SECRET), rf"{ROW} ward: expected one of the 3"
    ),
    Broken(
        "parquet: an unknown class",
        one("ill", SECRET),
        rf"{ROW} ill: expected one of the 2 classes",
    ),
    Broken(
        "parquet: a column of texts",
        parquet_of(table(age=[SECRET] * RECORDS)),
        r"row 1, column age: expected a number, got another text",
    ),
    Broken(
        "parquet: a column of lists",
        parquet_of(table(ward=[[SECRET]] * RECORDS)),
        r"data\.categorical\.0\.column: expected a column of numbers",
        droppable=False,
    ),
    Broken(
        "parquet: a missing column",
        parquet_of(table().drop_columns(["smoker"])),
        r"data\.boolean\.0\.column: .*'smoker', which isn't there",
        droppable=False,
    ),
    Broken(
        "parquet: cut off",
        parquet_of(table())[:-30],
        r"t\.parquet: expected a whole parquet file",
        droppable=False,
    ),
    Broken(
        "parquet: damaged pages",
        parquet_of(table(ward=[SECRET] * RECORDS))[:4]
        + bytes(400)
        + parquet_of(table(ward=[SECRET] * RECORDS))[404:],
        r"t\.parquet",
        droppable=False,
    ),
    Broken(
        "parquet: a CSV file", WHOLE, r"t\.parquet: expected a whole parquet file", droppable=False
    ),
)


def run(case: Broken, folder: Path, monkeypatch: pytest.MonkeyPatch, policy: str):
    monkeypatch.chdir(folder)
    kind = "parquet" if case.name.startswith("parquet") else "csv"
    (folder / f"t.{kind}").write_bytes(case.content)
    text = SPEC.replace("KIND", kind).replace("TABLE", f"t.{kind}").replace("POLICY", policy)
    (folder / "s.yaml").write_text(text)
    before = {path.name for path in folder.rglob("*")}
    done = CliRunner().invoke(app, ["run", "s.yaml", "--run-dir", "r"])
    return done, {path.name for path in folder.rglob("*")} - before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_table_is_refused_by_its_place_and_nothing_is_written(case, tmp_path, monkeypatch):
    done, written = run(case, tmp_path, monkeypatch, "refuse")
    assert done.exit_code == 2, done.output
    told = " ".join((done.output + done.stderr).split())
    assert re.search(case.message.replace(" ", r"\s?"), told), told
    assert SECRET[:6] not in told
    assert "Traceback" not in told
    assert not written


QUICK = {"a text for a number", "a huge field", "too few fields", "parquet: null"}
"""Whole runs that aren't slow tests."""
DROPPED = [
    pytest.param(
        case,
        id=case.name,
        marks=pytest.mark.slow if case.droppable and case.name not in QUICK else (),
    )
    for case in CASES
]


@pytest.mark.parametrize("case", DROPPED)
def test_with_drop_a_run_completes_or_the_whole_file_is_refused(case, tmp_path, monkeypatch):
    done, written = run(case, tmp_path, monkeypatch, "drop")
    told = done.output + done.stderr
    assert SECRET[:6] not in told
    if case.droppable:
        assert done.exit_code == 0, told
        assert json.loads((tmp_path / "r" / "summary.json").read_text())["status"] == "completed"
        for file in (tmp_path / "r").rglob("*"):
            assert not file.is_file() or SECRET[:6].encode() not in file.read_bytes()
    else:
        assert done.exit_code == 2, told
        assert not written
