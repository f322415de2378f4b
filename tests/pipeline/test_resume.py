"""Runs that are interrupted, killed, copied and resumed.

Nothing is lost but what a crash takes, and nothing is overspent.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dppipe.cli.app import app
from dppipe.learners.records.loader import PrivateLoader
from dppipe.lightning.callback import DPCallback
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord


def resume(path, *words):
    return CliRunner().invoke(app, ["resume", str(path), *words])


LONG = ["train.steps=400", "train.checkpoint_every=7", "budget.epsilon=100"]


@pytest.fixture
def killed(run, tmp_path):
    """Start the small spec in a process of its own.

    A signal stops it once it has charged some steps.
    """

    def go(number: int, *, after: int = 20):
        path = tmp_path / "stopped"
        words = [
            sys.executable,
            "-m",
            "dppipe",
            "run",
            str(tmp_path / "spec.yaml"),
            "--run-dir",
            str(path),
        ]
        words += [word for change in LONG for word in ("--set", change)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
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

    def go(number: int, *, changes=LONG):
        finish = RunRecord.step

        def then_signal(record, **facts):
            finish(record, **facts)
            if record.ledger.rows == 20:
                os.kill(os.getpid(), number)

        with monkeypatch.context() as patch:
            patch.setattr(RunRecord, "step", then_signal)
            done = run(*changes)
        return done.path, done.exit_code, done.output

    return go


def rows(path):
    return [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]


def saved_steps(path):
    return torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
        pytest.param(signal.SIGTERM, 143, id="sigterm", marks=pytest.mark.slow),
    ],
)
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(killed, number, code):
    path, returned, output = killed(number)
    assert returned == code, output
    assert f"dppipe resume {path}" in output
    assert "Traceback" not in output
    summary = json.loads((path / "summary.json").read_text())
    plan = json.loads((path / "plan.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["charged"] == summary["steps"] == len(rows(path)) == saved_steps(path)
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
    saved = saved_steps(path)
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
    untrue = resume(copy, "--original-is-gone")
    assert untrue.exit_code == 3
    assert f"{path}: expected the original to be gone" in untrue.output
    shutil.rmtree(path)
    shutil.copytree(copy, path)  # another copy is no better
    assert resume(copy, "--original-is-gone").exit_code == 3
    shutil.rmtree(path)
    assert resume(copy, "--original-is-gone").exit_code == 0


@pytest.mark.parametrize(
    "way", ["a new directory", "over the old files", "with the ledger's own inode"]
)
def test_a_backup_that_was_put_back_is_refused(start, tmp_path, way):
    path, *_ = start(signal.SIGINT)
    inode = (path / "ledger.jsonl").stat().st_ino
    shutil.copytree(path, tmp_path / "backup")
    if way == "a new directory":
        shutil.rmtree(path)
        shutil.copytree(tmp_path / "backup", path)
    elif way == "over the old files":
        shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
    else:  # as a file system does that uses inodes again
        origin = json.loads((path / "origin.json").read_text())
        shutil.rmtree(path)
        shutil.copytree(tmp_path / "backup", path)
        origin["ledger"]["inode"] = (path / "ledger.jsonl").stat().st_ino
        origin["plan"]["inode"] = (path / "plan.json").stat().st_ino
        (path / "origin.json").write_text(json.dumps(origin))
    assert way != "over the old files" or (path / "ledger.jsonl").stat().st_ino == inode
    done = resume(path)
    assert done.exit_code == 3
    assert "put back" in done.output


CSV = """
version: 1
name: small
data:
  kind: csv
  path: d.csv
  records: 40
  numeric: [{column: age, std: 10}]
  target: {column: ill, classes: ["0", "1"]}
model: {kind: logistic}
optimizer: {kind: sgd, lr: 0.5}
sampler: {kind: poisson, sample_rate: 0.5}
noise: {kind: constant, noise_multiplier: 5.0}
accountant: rdp
budget: {epsilon: 100.0, delta: 1.0e-3}
train: {steps: 400, accelerator: cpu}
"""


@pytest.mark.parametrize(
    ("happen", "words", "code"),
    [
        ("nothing", [], 0),
        ("edited", [], 3),
        ("edited", ["--accept-changes"], 3),
        ("edited, its time put back", [], 3),
        ("moved with the run", ["--original-is-gone"], 0),
        ("moved with the run and edited", ["--original-is-gone"], 3),
    ],
)
def test_data_that_changed_since_the_run_began_is_refused(
    start, tmp_path, monkeypatch, happen, words, code
):
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    data = Path("d.csv")
    data.write_text("age,ill\n" + "".join(f"{row % 10},{row % 2}\n" for row in range(40)))
    (tmp_path / "spec.yaml").write_text(CSV)
    path, code_before, output = start(signal.SIGINT, changes=[])
    assert code_before == 130, output
    times = data.stat()
    if "moved" in happen:
        (tmp_path / "first").rename(tmp_path / "second")
        path = path.rename(tmp_path / "second" / "run")
        monkeypatch.chdir(tmp_path / "second")
        shutil.copy2("d.csv", "copy.csv")
        Path("copy.csv").replace("d.csv")
    if "edited" in happen:
        with data.open("r+") as file:
            file.write("age,ill\n9,1\n")
        if happen != "edited, its time put back":
            os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
        else:
            shutil.copy(data, "other.csv")
            Path("other.csv").replace(data)
            os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = resume(path, *words)
    assert done.exit_code == code, done.output
    assert code == 0 or "d.csv: expected the data that the run began with" in done.output


@pytest.mark.parametrize(
    ("old", "new", "words", "code", "told"),
    [
        (
            "noise_multiplier: 1.0",
            "noise_multiplier: 0.5",
            ["--accept-changes"],
            3,
            "noise.noise_multiplier: expected 1.0",
        ),
        ("steps: 400", "steps: 4000", ["--accept-changes"], 3, "train.steps: expected 400"),
        ("size: 1000", "size: 1001", ["--accept-changes"], 3, "data.size: expected 1000"),
        ("lr: 0.5", "lr: 0.25", [], 3, "optimizer.lr: expected 0.5"),
        ("lr: 0.5", "lr: 0.25", ["--accept-changes"], 0, ""),
    ],
)
def test_a_changed_spec_is_refused_unless_it_cannot_change_privacy(
    start, old, new, words, code, told
):
    path, *_ = start(signal.SIGINT)
    config = (path / "config.yaml").read_text()
    assert old in config
    (path / "config.yaml").write_text(config.replace(old, new))
    before = rows(path)
    done = resume(path, *words)
    assert done.exit_code == code, done.output
    assert code == 0 or rows(path) == before
    line = config[: config.index(old)].count("\n") + 1
    assert told in done.output
    assert code == 0 or f"config.yaml:{line}:" in done.output


def test_a_ledger_that_lost_rows_is_refused(start):
    path, *_ = start(signal.SIGINT)
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join(lines[:3]))
    done = resume(path)
    assert done.exit_code == 3 or done.exit_code == 1
    assert "ledger" in done.output


def test_a_ledger_that_lost_rows_which_only_the_summary_has_seen_is_refused(start):
    path, *_ = start(signal.SIGINT)
    (path / "checkpoints" / "last.ckpt").unlink()
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join(lines[:3]))
    done = resume(path)
    assert done.exit_code == 3, done.output
    assert "expected the rows that the summary has seen" in " ".join(done.output.split())
    assert len(rows(path)) == 3


def test_a_finished_run_has_nothing_to_go_on_with(run):
    done = run()
    again = resume(done.path)
    assert again.exit_code == 2
    assert "finished" in again.output


def test_no_key_or_generator_state_is_in_a_checkpoint(start):
    path, *_ = start(signal.SIGINT)
    state = torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)
    private = state["callbacks"]["DPCallback"]
    assert set(private) == {
        "steps",
        "run",
        "start",
        "ledger_head",
        "ledger_rows",
        "clipper_state",
        "validations",
    }


PLUGIN = """
from dppipe import Clipper, Field

class Own(Clipper, kind="own"):
    '''Shrinks gradients to the bound.'''
    max_grad_norm: float = Field(1.0, gt=0)
    def factors(self, norms, bounds):
        return bounds / norms
"""


@pytest.mark.parametrize("changed", [True, False])
def test_a_changed_plugin_is_refused_and_one_in_another_folder_is_not(
    start, tmp_path, monkeypatch, changed
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "own.py").write_text(PLUGIN)
    path, code, output = start(signal.SIGINT, changes=[*LONG, "clipping={kind: own}"])
    assert code == 130, output
    (tmp_path / "plugins").rename(tmp_path / "elsewhere")
    if changed:
        (tmp_path / "elsewhere" / "own.py").write_text(PLUGIN.replace("bounds / norms", "bounds"))
    done = resume(path, "--plugins", str(tmp_path / "elsewhere"), "--accept-changes")
    assert done.exit_code == (3 if changed else 0), done.output
    assert not changed or "own.py: expected the code that the run began with" in done.output


def test_a_run_that_another_process_has_finished_meanwhile_is_left_as_it_is(start, monkeypatch):
    """The checkpoint is read before the ledger's lock is taken.

    What happens in between must not be written over.
    """
    path, *_ = start(signal.SIGINT)
    open_ledger = Ledger.open

    def after_another(*args, **options):
        monkeypatch.setattr(Ledger, "open", open_ledger)
        assert resume(path).exit_code == 0
        return open_ledger(*args, **options)

    monkeypatch.setattr(Ledger, "open", after_another)
    done = resume(path)
    assert done.exit_code == 2, done.output
    assert "finished" in done.output
    assert json.loads((path / "summary.json").read_text())["steps"] == 400
    assert CliRunner().invoke(app, ["ledger", "verify", str(path)]).exit_code == 0


SHORT = ["train.steps=40", "train.checkpoint_every=7"]


@pytest.mark.parametrize(
    ("first", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["sigterm", "ctrl-c"]
)
def test_a_sigterm_that_follows_a_signal_loses_no_step(run, monkeypatch, first, code):
    """Schedulers send it more than once.

    The run stops after the same step, and its checkpoint is still written.
    """
    finish = RunRecord.step

    def then_signals(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 20:
            os.kill(os.getpid(), first)
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signals)
        stopped = run(*SHORT)
    assert stopped.exit_code == code, stopped.output
    assert stopped.summary["charged"] == stopped.summary["steps"] == saved_steps(stopped.path) == 20
    assert resume(stopped.path).exit_code == 0
    assert stopped.summary["steps"] == stopped.summary["charged"] == 40


def test_a_sigterm_before_the_first_step_charges_none(run, monkeypatch):
    """A Trainer listens before its callbacks can.

    By itself it would take a step, charge it and lose it.
    """
    begin = DPCallback.on_train_start

    def signal_first(callback, trainer, module):
        os.kill(os.getpid(), signal.SIGTERM)
        begin(callback, trainer, module)

    with monkeypatch.context() as patch:
        patch.setattr(DPCallback, "on_train_start", signal_first)
        stopped = run(*SHORT)
    assert stopped.exit_code == 143, stopped.output
    assert stopped.rows == []
    assert resume(stopped.path).exit_code == 0
    assert stopped.summary["steps"] == stopped.summary["charged"] == 40


@pytest.mark.parametrize("turn", [1, 2], ids=["tries", "opens"])
def test_a_ctrl_c_while_a_trainer_tries_or_opens_the_loader_is_an_interruption(
    run, monkeypatch, turn
):
    make, turns = PrivateLoader.__iter__, []

    def signal_first(loader):
        turns.append(turn)
        if len(turns) == turn:
            os.kill(os.getpid(), signal.SIGINT)
        return make(loader)

    monkeypatch.setattr(PrivateLoader, "__iter__", signal_first)
    stopped = run(*SHORT)
    assert stopped.exit_code == 130, stopped.output
    assert "interrupted" in stopped.output
    assert not stopped.path.exists()


@pytest.mark.parametrize("second", ["a signal", "what torch makes of one"])
def test_a_second_ctrl_c_ends_the_run_at_once_and_it_can_go_on(run, monkeypatch, second):
    finish = RunRecord.step

    def then_signals(record, **facts):
        finish(record, **facts)
        if record.ledger.rows == 20:
            os.kill(os.getpid(), signal.SIGINT)
            if second == "a signal":
                os.kill(os.getpid(), signal.SIGINT)
            raise RuntimeError("something in the middle of which it came")

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_signals)
        stopped = run(*LONG)
    assert stopped.exit_code == 130, stopped.output
    assert f"dppipe resume {stopped.path}" in stopped.output
    assert "internal error" not in stopped.output
    assert len(rows(stopped.path)) == 20
    assert resume(stopped.path).exit_code == 0
    assert len(rows(stopped.path)) == 400
