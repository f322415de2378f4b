"""A disk that is full, or that this user may not write to: said in words, with nothing half-written and nothing hidden."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter
from typer.testing import CliRunner

import dppipe
from dppipe.cli.app import app
from dppipe.runs import directory as run_directory


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    assert "Traceback" not in done.output, done.output
    assert "internal error" not in done.output, done.output
    return done.exit_code, done.output


START = [
    "run",
    "s.yaml",
    "--run-dir",
    "r",
    "--set",
    "train.steps=4",
    "--set",
    "train.checkpoint_every=2",
]


def finish(here: Path) -> None:
    """Do what a user would do when there is room again."""
    if (here / "r" / "ledger.jsonl").exists():
        code, output = run("resume", "r")
    else:
        assert not (here / "r").exists()
        code, output = run(*START)
    assert code == 0 or "got one that is finished" in output, output
    assert json.loads((here / "r" / "summary.json").read_bytes())["charged"] == 4
    assert run("ledger", "verify", "r")[0] == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
def test_a_disk_that_fails_at_any_file_is_named_and_the_run_goes_on_afterwards(
    here: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each whole file is synced, and then its directory; the disk fails at one of these after another."""
    sync, left = run_directory.sync, 0

    def failing(path: Path) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(number, os.strerror(number), str(path))
        sync(path)

    for attempt in range(0, 100, 2 if number == errno.ENOSPC else 9):
        left = attempt
        with monkeypatch.context() as patch:
            patch.setattr(run_directory, "sync", failing)
            code, output = run(*START)
        if code == 0:
            break
        assert code == 1, output
        assert os.strerror(number) in output
        assert str(Path("r")) in output
        assert not [file for file in here.rglob("*") if ".tmp-" in file.name]
        finish(here)
        shutil.rmtree(here / "r")
    assert code == 0
    assert attempt > 20


def test_curves_that_cannot_be_written_end_the_run_with_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = RecordWriter.write, 4

    def failing(writer: RecordWriter, data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(writer, data)

    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "write", failing)
        code, output = run(*START)
    assert code == 1
    assert "tfevents" in output
    assert "No space left" in output
    finish(here)


def test_a_full_output_ends_the_command_with_one_line(here: Path) -> None:
    """/dev/full takes nothing."""
    command = [sys.executable, "-m", "dppipe", "schema"]
    environment = os.environ | {"PYTHONPATH": str(Path(dppipe.__file__).parents[1])}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


AS_NOBODY = """
import json, os, sys
from pathlib import Path
from typer.testing import CliRunner
import dppipe.pipeline.run, dppipe.pipeline.resume, dppipe.pipeline.evaluate, dppipe.lightning.progress
from dppipe.cli.app import app
cases = json.loads(sys.argv[3])
os.chdir(sys.argv[1])
for words in cases.values():  # as root: everything is imported that another user may not be able to read
    CliRunner().invoke(app, words)
os.setgid(65534), os.setuid(65534)
os.chdir(sys.argv[2])
done = {name: CliRunner().invoke(app, words) for name, words in cases.items()}
print(json.dumps({name: [one.exit_code, one.output] for name, one in done.items()}))
"""
NOT_ALLOWED = {
    "a run directory in a folder that is read-only": ["run", "s.yaml", "--run-dir", "new"],
    "a run directory that is read-only": ["run", "s.yaml", "--run-dir", "empty"],
    "a folder that can't be entered": ["run", "s.yaml", "--run-dir", "closed/new"],
    "runs/ that can't be made": ["run", "s.yaml"],
    "a spec that can't be read": ["validate", "secret.yaml"],
    "data that can't be read": ["run", "s.yaml", "--set", "data={kind: npz, path: secret.yaml}"],
    "a run in a folder that can't be entered": ["resume", "closed/run"],
    "a run that is read-only": ["resume", "finished"],
    "a score that can't be written": ["evaluate", "finished"],
    "a spec that can't be written": ["init", "mine.yaml"],
}


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs another user, for whom the directory is read-only"
)
def test_what_this_user_may_not_do_is_said_and_nothing_is_written(originals: Path) -> None:
    """One process runs all cases, as importing takes longest."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pytest's own directories can't even be entered by another user
        for place in (Path(folder, "warm"), Path(folder, "real")):
            place.mkdir()
            (place / "s.yaml").write_text((originals / "s.yaml").read_text())
            (place / "secret.yaml").touch(mode=0o600)
            (place / "empty").mkdir(mode=0o755)
            (place / "closed").mkdir(mode=0o700)
            shutil.copytree(originals / "finished", place / "finished")
        Path(folder).chmod(0o755)
        before = sorted(place.rglob("*"))
        environment = os.environ | {
            "PYTHONPATH": str(Path(dppipe.__file__).parents[1]),
            "HOME": folder,
        }
        command = [
            sys.executable,
            "-c",
            AS_NOBODY,
            f"{folder}/warm",
            f"{folder}/real",
            json.dumps(NOT_ALLOWED),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=folder
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        for name, (code, output) in json.loads(done.stdout).items():
            assert code in (2, 3), (name, output)
            assert "Traceback" not in output
            assert "internal error" not in output
        assert sorted(place.rglob("*")) == before
