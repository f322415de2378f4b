"""A run that dies in one of its last writes, or fails between two checkpoints: what its files say after a resume is true."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import Finished
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.lightning.callback import DPCallback
from dppipe.runs.record import RunRecord

Run = Callable[..., Finished]
STEPS = 20
CHANGES = [f"train.steps={STEPS}", "train.checkpoint_every=7", "train.validate_every=3"]
LAST = ["checkpoints/last.ckpt", "checkpoints/final.ckpt", "summary.json", "privacy.json"]
"""Files that are written after the last charge."""


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


@pytest.fixture
def moments(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Make one run, and keep a copy of it as it was before each of its last files got its name."""
    copies: dict[str, Path] = {}
    replace = os.replace

    def copying(source: Any, target: Any, **options: Any) -> None:
        folder = Path(target).parent
        folder = folder.parent if folder.name == "checkpoints" else folder
        name = str(Path(target).relative_to(folder))
        ledger = folder / "ledger.jsonl"
        if name in LAST and ledger.read_bytes().count(b"\n") == STEPS:
            copies[name] = Path(shutil.copytree(folder, tmp_path / f"before {Path(name).name}"))
        replace(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", copying)
        done = run(*CHANGES)
    assert done.exit_code == 0, done.output
    assert sorted(copies) == sorted(LAST)
    shutil.rmtree(done.path)
    return copies


def test_a_run_that_dies_after_its_last_charge_is_finished_by_resume(
    moments: dict[str, Path],
) -> None:
    for name, path in moments.items():
        charged = (path / "ledger.jsonl").read_bytes()
        code, output = command("resume", path, "--original-is-gone")
        assert code == 0, (name, output)
        assert (path / "ledger.jsonl").read_bytes() == charged, "nothing more is charged"
        summary = json.loads((path / "summary.json").read_text())
        updates = 14 if name == "checkpoints/last.ckpt" else STEPS
        assert (summary["status"], summary["steps"]) == ("completed", updates), name
        assert summary["charged"] == STEPS
        assert (path / "checkpoints" / "final.ckpt").exists()
        assert (path / "privacy.md").exists()
        assert command("ledger", "verify", path)[0] == 0
        assert command("resume", path)[0] == 2, "it is finished now"


@pytest.mark.parametrize("holdout", ["public", "private"])
def test_every_validation_is_counted_and_stands_at_its_own_epsilon_whatever_fails(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holdout: str
) -> None:
    """Each failure loses updates that no checkpoint has, so that there are fewer updates than charges."""
    looks: list[int] = []
    end, finish = DPCallback.on_validation_end, RunRecord.step

    def counting(callback: DPCallback, trainer: Any, module: Any) -> None:
        if not trainer.sanity_checking:
            looks.append(Finished(tmp_path / "run1", 0, "").rows[-1]["step"])
        end(callback, trainer, module)

    def then_fail(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.step in (11, 13):
            raise RuntimeError("a fault of the machine")

    monkeypatch.setattr(DPCallback, "on_validation_end", counting)
    monkeypatch.setattr(RunRecord, "step", then_fail)
    failed = run(*CHANGES, f"data.holdout={holdout}")
    assert failed.summary["status"] == "failed"
    assert command("resume", failed.path)[0] == 1
    assert failed.summary["status"] == "failed"
    code, output = command("resume", failed.path)
    assert code == 0, output
    assert failed.summary["steps"] < failed.summary["charged"] == STEPS
    assert failed.summary["validations"] == len(looks)
    curves = EventAccumulator(str(failed.path), size_guidance={"scalars": 0})
    curves.Reload()
    prefix = "val" if holdout == "public" else "nonprivate/val"
    # Each life has a file of its own, and files of one second are read in any order.
    assert sorted(point.step for point in curves.Scalars(f"{prefix}/accuracy")) == looks
