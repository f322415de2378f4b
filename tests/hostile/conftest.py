"""Runs to damage: one that is finished and one that was interrupted, made once and copied for each test."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.runs.record import RunRecord

SPEC = """
version: 1
name: small
seed: 7
data:      {kind: synthetic, size: 400, features: 4, classes: 3, holdout: public}
model:     {kind: logistic}
optimizer: {kind: sgd, lr: 0.5, momentum: 0.9}
sampler:   {kind: poisson, sample_rate: 0.05}
noise:     {kind: constant, noise_multiplier: 1.0}
accountant: {kind: rdp}
budget:    {epsilon: 20.0, delta: 1.0e-5}
train:     {steps: 12, checkpoint_every: 3, validate_every: 6, accelerator: cpu}
"""


def dppipe(*words: object) -> Any:
    """Run a command in this process; whatever happens, it ends with a code and without a traceback."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output, result.output
    assert "internal error" not in result.output, result.output
    return result


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the small spec."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SPEC)
    return tmp_path


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished and an interrupted run."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "s.yaml").write_text(SPEC)
    assert dppipe("run", folder / "s.yaml", "--run-dir", folder / "finished").exit_code == 0
    step = RunRecord.step

    def then_interrupt(record: RunRecord, **facts: object) -> None:
        step(record, **facts)
        if record.ledger.rows == 7:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunRecord, "step", then_interrupt)
        assert (
            dppipe("run", folder / "s.yaml", "--run-dir", folder / "interrupted").exit_code == 130
        )
    return folder.rename(
        folder.with_name("moved")
    )  # where they were made there is nothing any more


@pytest.fixture
def copy(originals: Path, here: Path) -> Callable[[str], Path]:
    """Copy one of the runs."""

    def made(name: str) -> Path:
        shutil.copytree(originals / name, here / name)
        return here / name

    return made
