"""The number of records: what the plan was made for is what is trained on, and a secret number is never said."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app

SPEC = """
version: 1
name: counted
data:
  {kind: csv, path: d.csv, numeric: [{column: a}], target: {column: y, classes: ["0", "1"]}, split: {train: 1, val: 0, test: 0}}
model: logistic
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.05}
noise: {kind: constant, noise_multiplier: 1.0}
accountant: rdp
budget: {epsilon: 8.0, delta: 1.0e-5}
train: {steps: 3, accelerator: cpu}
"""
RECORDS = 7919

LYING = """
from dppipe.data.synthetic import Synthetic
class Lying(Synthetic, kind="lying"):
    def train_count(self):
        return 100
"""
ADD_REMOVE = ["budget.relation=add_remove", "sampler.expected_batch_size=20"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPEC)
    write_data(tmp_path, RECORDS)
    return tmp_path


def write_data(folder: Path, records: int) -> None:
    (folder / "d.csv").write_text(
        "a,y\n" + "".join(f"{row / 10000:.4f},{row % 2}\n" for row in range(records))
    )


def command(*words: str, changes: Sequence[str] = ()) -> tuple[int, str]:
    done = CliRunner().invoke(
        app, [*words, *(word for change in changes for word in ("--set", change))]
    )
    return done.exit_code, done.output


def test_a_stated_number_that_is_not_the_datas_is_refused_with_both(here: Path) -> None:
    code, output = command("run", "s.yaml", "--run-dir", "r", changes=["data.records=8000"])
    assert code == 2
    assert "8000" in output
    assert str(RECORDS) in output
    assert not (here / "r").exists()


def test_a_data_kind_that_miscounts_is_refused_before_anything_is_charged(here: Path) -> None:
    (here / "plugins").mkdir()
    (here / "plugins" / "lying.py").write_text(LYING)
    code, output = command(
        "run", "s.yaml", "--run-dir", "r", changes=["data={kind: lying, size: 1000}"]
    )
    assert code == 2, output
    assert "expected 100 training records, which the plan is made for, got 800" in output
    assert not (here / "r").exists()


def test_under_add_remove_nothing_that_a_run_says_or_writes_hangs_on_the_number_of_records(
    here: Path,
) -> None:
    said, files = [], []
    for name, records in (("run-1", RECORDS), ("run-2", RECORDS - 2000)):
        write_data(here, records)
        code, output = command("plan", "s.yaml", changes=ADD_REMOVE)
        assert code == 0, output
        code, trained = command("run", "s.yaml", "--run-dir", name, changes=ADD_REMOVE)
        assert code == 0, trained
        said.append(
            [
                line
                for line in without_speed(output + trained).replace(name, "").splitlines()
                if not line.startswith("  time")
            ]
        )
        facts = json.loads((here / name / "summary.json").read_text())
        facts |= {"run_dir": "", "seconds": 0, "begun": "", "ended": ""}
        texts = ("plan.json", "config.yaml", "ledger.jsonl", "privacy.json", "privacy.md")
        files.append([facts, *(without_times((here / name / file).read_text()) for file in texts)])
        sizes = {
            file.name.split(".")[0]: file.stat().st_size
            for file in (here / name).rglob("*")
            if file.suffix != ".json"
        }
        files[-1].append(sizes)
    assert said[0] == said[1]
    assert files[0] == files[1]


def without_speed(text: str) -> str:
    return re.sub(r"[\d.]+/s  [\d.]+ s left", "SPEED", text)


def without_times(text: str) -> str:
    """Take out clock times, to the minute or the second."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z)", "TIME", text)


def test_under_add_remove_a_stated_number_is_refused_and_the_true_one_not_said(here: Path) -> None:
    for word in ("validate", "plan", "run"):
        code, output = command(word, "s.yaml", changes=[*ADD_REMOVE, "data.records=8000"])
        assert code == 2
        assert "leave it out" in output
        assert str(RECORDS) not in output
