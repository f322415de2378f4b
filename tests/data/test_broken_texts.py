"""Broken files of texts: refused with their place before any charge, or dropped one by one.

Each is given to `dppipe run`: exit code 2, no value of a record shown, nothing written. With
`on_bad_record: drop` the run completes wherever only single records are broken.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import dppipe.data.tables.field_lines as field_lines
from dppipe.cli.app import app

SECRET = "zqxsecret"
GOOD = [(f"good words number {row}", "yes" if row % 2 else "no") for row in range(24)]
SPEC = """
version: 1
name: texts
data:
  kind: text
  path: {name}
  records: 25
  target: {{column: label, classes: ["no", "yes"]}}
  tokenizer: {{kind: words, buckets: 50}}
  max_length: 8
  split: {{train: 1.0, val: 0, test: 0}}
  {more}
model: text_bag
optimizer: {{kind: sgd, lr: 0.5}}
sampler: {{kind: poisson, sample_rate: 0.4}}
noise: {{kind: constant, noise_multiplier: 4.0}}
accountant: rdp
budget: {{epsilon: 50.0, delta: 1.0e-5}}
train: {{steps: 1}}
"""


def delimited(separator: str, bad: bytes | None, *, header: str = "text,label") -> bytes:
    """Return a file whose 10th record, on line 11, is the bad one."""
    lines = [header.replace(",", separator).encode()]
    lines += [separator.join(row).encode() for row in GOOD]
    if bad is not None:
        lines.insert(10, bad)
    return b"\n".join(lines) + b"\n"


def json_lines(bad: bytes) -> bytes:
    lines = [json.dumps({"text": text, "label": label}).encode() for text, label in GOOD]
    lines.insert(10, bad)
    return b"\n".join(lines) + b"\n"


def parquet_bytes(folder: Path, **columns: pyarrow.Array) -> bytes:
    parquet.write_table(pyarrow.table(columns), folder / "made.parquet")
    return (folder / "made.parquet").read_bytes()


def with_null(folder: Path) -> bytes:
    texts = [text for text, _ in GOOD]
    labels = [label for _, label in GOOD]
    return parquet_bytes(
        folder,
        text=pyarrow.array([*texts[:10], None, *texts[10:]]),
        label=pyarrow.array([*labels[:10], "yes", *labels[10:]]),
    )


def with_bad_bytes(folder: Path) -> bytes:
    data = [text.encode() for text, _ in GOOD]
    data.insert(10, f"{SECRET} ".encode() + b"\xff\xfe")
    raw = pyarrow.array(data, pyarrow.binary())
    labels = ["yes", *(label for _, label in GOOD)]
    text = pyarrow.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2])
    return parquet_bytes(folder, text=text, label=pyarrow.array(labels))


def truncated(folder: Path) -> bytes:
    return with_null(folder)[:-40]


@dataclass(frozen=True)
class Broken:
    """A broken file, and what is said of it."""

    name: str
    make: Callable[[Path], bytes]
    said: str
    droppable: bool = True
    more: str = ""


def plain(data: bytes) -> Callable[[Path], bytes]:
    return lambda _: data


S = SECRET.encode()
FILES = [
    Broken("t.tsv", plain(delimited("\t", S + b"\tmaybe")), "line 11, column 2 (label)"),
    Broken(
        "t.tsv", plain(delimited("\t", S + b"\tyes\textra")), "line 11: expected 2 fields, got 3"
    ),
    Broken("t.tsv", plain(delimited("\t", S)), "line 11: expected 2 fields, got 1"),
    Broken("t.tsv", plain(delimited("\t", S + b"\xff\tyes")), "line 11: expected UTF-8 text"),
    Broken("t.tsv", plain(delimited("\t", S * 999 + b"\tyes")), "line 11: expected a record of at"),
    Broken("t.csv", plain(delimited(",", S + b',"y"es')), "line 11: expected a delimiter after"),
    Broken(
        "t.csv",
        plain(delimited(",", b'"' + S + b" open,yes")),
        "line 11: expected a quotation mark that closes",
        droppable=False,
    ),
    Broken("t.csv", plain(b""), "expected records, got none", droppable=False),
    Broken("t.csv", plain(b"text,label\n"), "expected records, got none", droppable=False),
    Broken(
        "t.csv", plain(delimited(";", S + b";yes")), "expected one of 1 columns", droppable=False
    ),
    Broken(
        "t.tsv",
        plain(delimited("\t", S + b"\tyes", header="text,lable")),
        "Did you mean column 2?",
        droppable=False,
    ),
    Broken(
        "t.tsv.gz",
        plain(gzip.compress(delimited("\t", S + b"\tyes"))[:-20]),
        "expected a whole gzip file",
        droppable=False,
    ),
    Broken(
        "t.jsonl",
        plain(json_lines(b'{"text": "' + S + b'", "label": ')),
        "line 11: expected a JSON",
    ),
    Broken(
        "t.jsonl",
        plain(json_lines(b'{"text": ["' + S + b'"], "label": "no"}')),
        "line 11: expected",
    ),
    Broken(
        "t.jsonl",
        plain(json_lines(b'{"body": "' + S + b'", "label": "no"}')),
        "line 11, column text",
    ),
    Broken(
        "t.jsonl",
        plain(json_lines(b'{"text": "\\ud800", "label": "no"}')),
        "line 11: expected UTF-8",
    ),
    Broken("t.parquet", with_null, "row 11, column text: expected a text, got a missing value"),
    Broken("t.parquet", with_bad_bytes, "row 11, column text: expected UTF-8 text"),
    Broken("t.parquet", truncated, "expected a whole parquet file", droppable=False),
]


@pytest.mark.parametrize("broken", FILES, ids=lambda one: f"{one.name}: {one.said}")
def test_a_broken_text_is_refused_by_its_place_or_dropped(
    broken: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(field_lines, "LONGEST", 4000)
    (tmp_path / broken.name).write_bytes(broken.make(tmp_path))
    (tmp_path / "made.parquet").unlink(missing_ok=True)
    (tmp_path / "s.yaml").write_text(SPEC.format(name=broken.name, more=broken.more))
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["run", "s.yaml", "--run-dir", "out"])
    said = " ".join(done.output.split())
    assert done.exit_code == 2, said
    assert broken.said in said
    assert SECRET not in said
    assert "Traceback" not in said
    assert sorted(tmp_path.rglob("*")) == before
    drop = ["--set", "data.on_bad_record=drop", "--run-dir", "out"]
    done = CliRunner().invoke(app, ["run", "s.yaml", *drop])
    assert SECRET not in done.output
    assert done.exit_code == (0 if broken.droppable else 2), done.output
    assert (tmp_path / "out" / "summary.json").exists() == broken.droppable
