"""Runs that are interrupted, killed, copied and resumed: nothing lost but what a crash takes, nothing overspent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.training.record import RunRecord


def resume(path, *words):
    return CliRunner().invoke(app, ["resume", str(path), *words])


LONG = ["train.steps=400", "train.checkpoint_every=7", "budget.epsilon=100"]


@pytest.fixture
def killed(run, tmp_path):
    """Start the small spec in a process of its own, and stop it by a signal once it has charged some steps."""

    def go(number: int, *, after: int = 20):
        path = tmp_path / "stopped"
        words = [sys.executable, "-m", "dppipe", "run", str(tmp_path / "spec.yaml"), "--run-dir", str(path)]
        words += [word for change in LONG for word in ("--set", change)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        ledger = path / "ledger.jsonl"
        deadline = time.monotonic() + 100
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < after:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(number)
        output = process.communicate(timeout=100)
        return path, process.returncode, "".join(output)

    return go


@pytest.fixture
def start(run, monkeypatch):
    """Run the small spec in this process, which gets a real signal after its 20th step."""

    def go(number: int):
        finish = RunRecord.step

        def then_signal(record, **facts):
            finish(record, **facts)
            if record.ledger.rows == 20:
                os.kill(os.getpid(), number)

        with monkeypatch.context() as patch:
            patch.setattr(RunRecord, "step", then_signal)
            done = run(*LONG)
        return done.path, done.exit_code, done.output

    return go


def rows(path):
    return [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"])
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(killed, number, code):
    path, returned, output = killed(number)
    assert returned == code, output
    assert f"dppipe resume {path}" in output
    assert "Traceback" not in output
    summary = json.loads((path / "summary.json").read_text())
    plan = json.loads((path / "plan.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["charged"] == summary["steps"] == len(rows(path))
    assert summary["epsilon"] == plan["epsilon"] > summary["epsilon_spent"]
    done = resume(path)
    assert done.exit_code == 0, done.output
    summary = json.loads((path / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["steps"] == summary["charged"] == len(rows(path)) == 400
    assert CliRunner().invoke(app, ["ledger", "verify", str(path)]).exit_code == 0


def test_after_a_kill_lost_steps_stay_charged_and_the_rest_are_trained(killed):
    path, returned, _ = killed(signal.SIGKILL, after=30)
    assert returned == -signal.SIGKILL
    charged = len(rows(path))
    saved = torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]
    done = resume(path)
    assert done.exit_code == 0, done.output
    summary = json.loads((path / "summary.json").read_text())
    assert summary["charged"] == len(rows(path)) == 400
    assert summary["steps"] == saved + 400 - charged
    assert [row["step"] for row in rows(path)] == list(range(1, 401))


def test_the_privacy_curve_never_goes_back(start):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path, *_ = start(signal.SIGTERM)
    resume(path)
    curves = EventAccumulator(str(path), size_guidance={"scalars": 0})
    curves.Reload()
    steps = [point.step for point in curves.Scalars("privacy/epsilon")]
    assert steps == sorted(steps)
    assert steps[-1] == 400


def test_a_torn_row_is_charged(start):
    path, *_ = start(signal.SIGINT)
    whole = len(rows(path))
    with (path / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"row":')
    done = resume(path)
    assert done.exit_code == 0, done.output
    assert len(rows(path)) == 400
    assert json.loads((path / "summary.json").read_text())["charged"] == 400
    assert rows(path)[whole]["row"] == whole + 1


def test_a_copy_is_refused_until_the_original_is_said_to_be_gone(start, tmp_path):
    path, *_ = start(signal.SIGINT)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    refused = resume(copy)
    assert refused.exit_code == 3
    assert "copy" in refused.output
    assert resume(copy, "--original-is-gone").exit_code == 0


def test_a_backup_that_was_put_back_is_refused(start, tmp_path):
    path, *_ = start(signal.SIGINT)
    shutil.copytree(path, tmp_path / "backup")
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    assert resume(path).exit_code == 3


@pytest.mark.parametrize(
    ("old", "new", "words", "code"),
    [
        ("noise_multiplier: 1.0", "noise_multiplier: 0.5", ["--accept-changes"], 3),
        ("steps: 400", "steps: 4000", ["--accept-changes"], 3),
        ("size: 1000", "size: 1001", ["--accept-changes"], 3),
        ("lr: 0.5", "lr: 0.25", [], 3),
        ("lr: 0.5", "lr: 0.25", ["--accept-changes"], 0),
    ],
)
def test_a_changed_spec_is_refused_unless_it_cannot_change_privacy(start, old, new, words, code):
    path, *_ = start(signal.SIGINT)
    config = (path / "config.yaml").read_text()
    assert old in config
    (path / "config.yaml").write_text(config.replace(old, new))
    before = rows(path)
    done = resume(path, *words)
    assert done.exit_code == code, done.output
    assert code == 0 or rows(path) == before


def test_a_ledger_that_lost_rows_is_refused(start):
    path, *_ = start(signal.SIGINT)
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join(lines[:3]))
    done = resume(path)
    assert done.exit_code == 3 or done.exit_code == 1
    assert "ledger" in done.output


def test_a_finished_run_has_nothing_to_go_on_with(run):
    done = run()
    again = resume(done.path)
    assert again.exit_code == 2
    assert "finished" in again.output


def test_no_key_or_generator_state_is_in_a_checkpoint(start):
    path, *_ = start(signal.SIGINT)
    state = torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)
    private = state["callbacks"]["DPCallback"]
    assert set(private) == {"steps", "ledger_head", "ledger_rows", "clipper_state", "validations"}
