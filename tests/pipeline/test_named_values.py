"""Environment variables in a run: their values reach no file, and a resumed run reads them again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dppipe.budgets.scopes import Scope
from dppipe.budgets.store import Store
from dppipe.cli.app import app
from dppipe.runs.record import RunRecord

SPEC = """\
version: 1
name: named
data: {kind: npz, path: '${env:RECORDS_PLACE}/a.npz', records: 300, classes: 2, holdout: public}
model: logistic
optimizer: {kind: sgd, lr: 0.1}
sampler: {kind: poisson, sample_rate: 0.1}
noise: {noise_multiplier: 2.0, kind: constant}
accountant: rdp
budget: {epsilon: 3.0, delta: 1.0e-5, scope: clinic, store: '${env:STORE_PLACE}/s.db'}
train: {steps: 6, checkpoint_every: 2}
"""
SECRETS = (b"records-4711", b"store-4711")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for secret, name in zip(SECRETS, ("RECORDS_PLACE", "STORE_PLACE"), strict=True):
        (tmp_path / secret.decode()).mkdir()
        monkeypatch.setenv(name, str(tmp_path / secret.decode()))
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(300, 4)).astype(np.float32)
    np.savez(tmp_path / "records-4711/a.npz", x=inputs, y=(inputs[:, 0] > 0).astype(np.int64))
    scope = Scope.make("clinic", epsilon=4.0, delta=1e-4, order=8.0)
    Store("${env:STORE_PLACE}/s.db").create(scope)
    (work / "s.yaml").write_text(SPEC)
    return work


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def silent(folder: Path, *outputs: str) -> None:
    """No file of a folder, no file's name and no output holds a value."""
    for file in folder.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        for secret in SECRETS:
            assert secret not in content, file
    for secret in SECRETS:
        assert secret.decode() not in "".join(outputs)


def test_a_run_reads_the_values_and_leaves_only_names(here: Path) -> None:
    planned = call("plan", "s.yaml", "--json")
    shown = call("show", "s.yaml", "--sources")
    done = call("run", "s.yaml", "--run-dir", "r")
    assert done.exit_code == 0, done.output
    text = (here / "r/config.yaml").read_text()
    assert "${env:RECORDS_PLACE}/a.npz" in text
    assert "${env:STORE_PLACE}/s.db" in text
    silent(here, planned.output, shown.output, done.output)
    status = Store("${env:STORE_PLACE}/s.db").status("clinic")
    assert [entry.state for entry in status.runs] == ["settled"]


def test_a_resumed_run_reads_the_variables_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = RunRecord.step

    def then_signal(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.rows == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signal)
        assert call("run", "s.yaml", "--run-dir", "r").exit_code == 130
    place = here.parent / "records-4711"
    moved = place.rename(here.parent / "moved")
    lost = call("resume", "r")
    assert lost.exit_code == 2
    assert "data.path" in lost.output
    monkeypatch.delenv("RECORDS_PLACE")
    unset = call("resume", "r")
    assert unset.exit_code == 2
    assert "r/config.yaml:" in unset.output
    assert "environment variable RECORDS_PLACE, got none" in " ".join(unset.output.split())
    monkeypatch.setenv("RECORDS_PLACE", str(moved))
    done = call("resume", "r")
    assert done.exit_code == 0, done.output
    assert len((here / "r/ledger.jsonl").read_text().splitlines()) == 6
    silent(here, lost.output, unset.output, done.output)


def test_a_store_that_fails_is_told_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "store-4711")
    monkeypatch.setenv("HOST", "store-4711.invalid")  # the database's own error names it
    address = "postgresql://me:${env:PW}@${env:HOST}:9/x"
    (here / "s.yaml").write_text(SPEC.replace("${env:STORE_PLACE}/s.db", address))
    failed = call("run", "s.yaml", "--run-dir", "r")
    assert failed.exit_code == 1
    assert address in failed.output
    monkeypatch.setenv("PW", "store-4711@x:store-4711")
    broken = call("run", "s.yaml", "--run-dir", "r")
    assert broken.exit_code == 2
    silent(here, failed.output, broken.output)


@pytest.mark.parametrize(
    "store", ["postgresql://me:plain@h/x", "postgresql://me@h/x?password=plain"]
)
def test_a_password_in_the_text_of_a_spec_is_refused(store: str, here: Path) -> None:
    (here / "s.yaml").write_text(SPEC.replace("${env:STORE_PLACE}/s.db", store))
    refused = call("validate", "s.yaml")
    assert refused.exit_code == 2
    assert "without a password in the text" in " ".join(refused.output.split())
