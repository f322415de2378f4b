"""Data that can't be trained on, and code of a user's own that fails: named by place, and no record's value is ever shown."""

from __future__ import annotations

import gzip
import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

SECRET = "471147114711"  # planted as a record's value: no message may hold it, nor what floats make of it
SEEN = ("47114711", "4.7114", "4.711")

SPEC = """
version: 1
name: small
data: DATA
model: {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.5}
noise: {kind: constant, noise_multiplier: 5.0}
accountant: rdp
budget: {epsilon: 20.0, delta: 1.0e-3}
train: {steps: 4, accelerator: cpu}
"""
CSV = (
    '{kind: csv, path: d.csv, records: 8, numeric: [{column: age}], target: {column: ill, classes: ["0", "1"]}, '
    "split: {train: 0.75, val: 0.25, test: 0}}"
)
GOOD = "age,ill\n" + "".join(f"{row},{row % 2}\n" for row in range(8))
NPZ = "{kind: npz, path: d.npz, classes: 3, split: {train: 0.5, val: 0.5, test: 0}}"
IDX = "{kind: idx, root: ., split: {train: 0.5, val: 0.5}}"


def arrays(**changes: Any) -> dict[str, Any]:
    return {"x": numpy.ones((8, 2), numpy.float32), "y": numpy.arange(8) % 3} | changes


def npz(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: numpy.savez(folder / "d.npz", **arrays(**changes))


def table(text: str | bytes) -> Callable[[Path], None]:
    content = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / "d.csv").write_bytes(content) and None


def idx(
    *, labels: bytes = bytes(8), images: bytes = bytes(8 * 4), count: int = 8
) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for part in ("train", "t10k"):
            (folder / f"{part}-images-idx3-ubyte").write_bytes(
                struct.pack(">HBBIII", 0, 8, 3, count, 2, 2) + images
            )
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">HBBI", 0, 8, 1, count) + labels
            )

    return write


BAD: dict[str, tuple[str, Callable[[Path], None]]] = {
    "csv: no file": (CSV, lambda folder: None),
    "csv: a folder": (CSV, lambda folder: (folder / "d.csv").mkdir()),
    "csv: empty": (CSV, table("")),
    "csv: a header alone": (CSV, table("age,ill\n")),
    "csv: a column is missing": (CSV, table(GOOD.replace("age", "years"))),
    "csv: no header": (CSV, table(GOOD.replace("age,ill", f"{SECRET},0"))),
    "csv: a word": (CSV, table(GOOD.replace("3,1", f"x{SECRET},1"))),
    "csv: NaN": (CSV, table(GOOD.replace("3,1", "nan,1"))),
    "csv: too large": (CSV, table(GOOD.replace("3,1", f"{SECRET}e99,1"))),
    "csv: missing value": (CSV, table(GOOD.replace("3,1", ",1"))),
    "csv: label out of range": (CSV, table(GOOD.replace("3,1", f"3,{SECRET}"))),
    "csv: too many fields": (CSV, table(GOOD.replace("3,1", f"3,1,{SECRET}"))),
    "csv: open quote": (CSV, table(GOOD.replace("3,1", f'"{SECRET},1'))),
    "csv: quote inside": (CSV, table(GOOD.replace("3,1", f'"a"{SECRET},1'))),
    "csv: null bytes": (CSV, table(GOOD.replace("3,1", f"\0{SECRET},1"))),
    "csv: not UTF-8": (CSV, table(GOOD.encode() + b"\xff" + SECRET.encode() + b",1\n")),
    "csv: too few records": (CSV, table(GOOD[: GOOD.index("7,1")])),
    "csv: too many records": (CSV, table(GOOD + "9,1\n")),
    "csv: a huge field": (CSV, table(GOOD.replace("3,1", SECRET * 20_000 + ",1"))),
    "csv: cut gzip": (CSV, table(gzip.compress(GOOD.encode())[:-9])),
    "csv: gzip of nonsense": (CSV, table(b"\x1f\x8b" + SECRET.encode())),
    "npz: no archive": (NPZ, lambda folder: (folder / "d.npz").write_text(SECRET) and None),
    "npz: empty": (NPZ, lambda folder: (folder / "d.npz").write_bytes(b"") and None),
    "npz: no such array": (NPZ, lambda folder: numpy.savez(folder / "d.npz", a=numpy.ones(3))),
    "npz: NaN": (NPZ, npz(x=numpy.full((8, 2), numpy.nan))),
    "npz: infinite": (NPZ, npz(x=numpy.full((8, 2), 4.7114711e300))),
    "npz: words": (NPZ, npz(x=numpy.full((8, 2), SECRET))),
    "npz: objects": (NPZ, npz(x=numpy.array([[{"a": SECRET}] * 2] * 8, dtype=object))),
    "npz: no records": (NPZ, npz(x=numpy.ones((0, 2)), y=numpy.ones(0, int))),
    "npz: unlike lengths": (NPZ, npz(y=numpy.zeros(7, int))),
    "npz: labels too large": (NPZ, npz(y=numpy.full(8, 4711471147))),
    "npz: labels too small": (NPZ, npz(y=numpy.full(8, -4711471147))),
    "npz: labels with a point": (NPZ, npz(y=numpy.full(8, 4.7114711))),
    "idx: no file": (IDX, lambda folder: None),
    "idx: labels too large": (IDX, idx(labels=bytes([47] * 8))),
    "idx: cut off": (IDX, idx(images=bytes(10))),
    "idx: no records": (IDX, idx(count=0, labels=b"", images=b"")),
    "idx: fewer records than the header says": (IDX, idx(count=500)),
}


def command(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    assert "Traceback" not in done.output, done.output
    return done.exit_code, done.output


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_named_without_a_value_and_nothing_is_written(
    name: str, here: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    caplog.set_level(logging.DEBUG)
    data, write = BAD[name]
    write(here)
    (here / "s.yaml").write_text(SPEC.replace("DATA", data))
    for word in ("validate", "run"):
        code, output = command(word, "s.yaml", *(["--run-dir", "r"] if word == "run" else []))
        assert code == 2 or word == "validate", output
        assert code in (0, 2)
        assert "internal error" not in output
        text = output + caplog.text + "".join(str(warning.message) for warning in recwarn)
        assert not [seen for seen in SEEN if seen in text], text
    assert "d.csv" in output or "d.npz" in output or "idx" in output or "data" in output, output
    assert not (here / "r").exists()


MODELS = """
import pytorch_lightning as pl, torch
from torch import nn

def fail(x):
    if (x > 4e10).any():
        raise ValueError(str(x.tolist()))

class Forward(nn.Module):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.inner = nn.Linear(input_shape[0], outputs)
    def forward(self, x):
        fail(x)
        return self.inner(x)

class Constructor(nn.Module):
    def __init__(self):
        raise ValueError(open("d.csv").read())

class Loss(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)
    def training_step(self, batch, batch_idx):
        x, y = batch
        fail(x.detach())
        return nn.functional.mse_loss(self.inner(x).flatten(), y)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Offered(Loss):
    def per_sample_loss(self, batch):
        x, y = batch
        fail(x)
        return (self.inner(x).flatten() - y) ** 2

class Validation(Loss):
    def per_sample_loss(self, batch):
        x, y = batch
        return (self.inner(x).flatten() - y) ** 2
    def validation_step(self, batch, batch_idx):
        fail(batch[0])

class Index(Validation):
    def validation_step(self, batch, batch_idx):
        torch.zeros(3)[batch[0].long()]

raise_at_import = None
"""
RECORDS = """
import torch
from dppipe import Data
class Pairs:
    def __init__(self, where): self.where = where
    def __len__(self): return 8
    def __getitem__(self, index):
        if index >= self.where: raise ValueError("471147114711")
        return torch.zeros(1), torch.tensor(0.0)
class Counts(Data):
    task, input_shape, outputs = "binary", (1,), 1
    def count(self): raise ValueError("471147114711")
class Loads(Data):
    task, input_shape, outputs = "binary", (1,), 1
    def count(self): return 8
    def load(self): raise ValueError("471147114711")
"""
BROKEN_IMPORT = "raise ValueError(open('d.csv').read())\nclass Net: pass\n"
PLUGIN = """
from dppipe import Clipper
class Own(Clipper, kind="own"):
    def factors(self, norms, bounds):
        if float(norms.max()) > 1e9: raise ValueError(f"{norms}")
        return bounds / norms
"""
PAIRS = "{class_path: records.Pairs, init_args: {where: WHERE}, records: 8, input_shape: [1], outputs: 1, task: binary}"


@pytest.mark.parametrize(
    "changes",
    [
        ["model={class_path: nets.Forward}"],
        ["model={class_path: nets.Constructor}"],
        ["model={class_path: nets.Loss}", "optimizer=null"],
        ["model={class_path: nets.Offered}", "optimizer=null"],
        ["model={class_path: nets.Validation}", "optimizer=null"],
        ["model={class_path: nets.Index}", "optimizer=null"],
        ["model={class_path: broken_import.Net}"],
        [f"data={PAIRS.replace('WHERE', '0')}"],
        [f"data={PAIRS.replace('WHERE', '1')}"],
        ["data={class_path: records.Counts}"],
        ["data={class_path: records.Loads}"],
        ["clipping=own"],
    ],
    ids=lambda changes: changes[0].split("class_path: ")[-1].split(",")[0].rstrip("}"),
)
def test_what_a_users_own_code_raises_is_not_repeated(
    changes: list[str],
    here: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.syspath_prepend(str(here))
    (here / "nets.py").write_text(MODELS)
    (here / "records.py").write_text(RECORDS)
    (here / "broken_import.py").write_text(BROKEN_IMPORT)
    (here / "plugins").mkdir()
    (here / "plugins" / "own.py").write_text(PLUGIN)
    (here / "d.csv").write_text("age,ill\n" + "".join(f"{SECRET},{row % 2}\n" for row in range(8)))
    (here / "s.yaml").write_text(SPEC.replace("DATA", CSV))
    words = [word for change in changes for word in ("--set", change)]
    code, output = command("run", "s.yaml", "--run-dir", "r", *words)
    assert code in (0, 1, 2), (
        output
    )  # a record that makes code raise contributes nothing, and ends nothing
    assert "internal error" not in output, output
    assert not [seen for seen in SEEN if seen in output + caplog.text], output
    for file in (here / "r").rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
    if (
        here / "r"
    ).exists():  # it has failed on its way: what was charged is on record, and it can be told so
        assert command("ledger", "verify", "r")[0] == 0
