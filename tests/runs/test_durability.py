"""What a run writes is on the disk in an order that a power cut can't undo.

Each writer is tested by its system calls.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import SPEC
from typer.testing import CliRunner

from dppipe.budgets.tables import Database
from dppipe.cli.app import app
from dppipe.noise import Constant
from dppipe.planning.planned_release import PlannedRelease
from dppipe.randomness.gaussian import GaussianStream
from dppipe.runs.directory import RunDirectory
from dppipe.runs.ledger import Ledger
from dppipe.runs.record import RunRecord
from dppipe.runs.released import ReleasedValues

from .test_verify import a_charge, parts, write_run

REPLACED = [
    "config.yaml",
    "plan.json",
    "origin.json",
    "statistics.json",
    "checkpoints/last.ckpt",
    "checkpoints/final.ckpt",
    "summary.json",
    "privacy.md",
    "privacy.json",
]
"""Files that are written whole, under another name first."""
APPENDED = ["ledger.jsonl", "budget.json"]
"""Files whose every write is on the disk when it returns."""
STEPS = 4


@dataclass(frozen=True)
class Call:
    """A call that reached a file: what it did, to which path, and the size or durability after."""

    name: str
    path: str
    target: str = ""
    size: int = 0
    durable: bool = False


@dataclass
class Disk:
    """Records the calls that write, sync, rename and remove files, and where noise is added."""

    calls: list[Call] = field(default_factory=list)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        opened, write, fsync, replace, unlink, add = (
            os.open,
            os.write,
            os.fsync,
            os.replace,
            os.unlink,
            GaussianStream.add_,
        )

        def watched_open(path: Any, flags: int, *mode: int, **options: Any) -> int:
            fd = opened(path, flags, *mode, **options)
            if flags & os.O_EXCL:
                self.calls.append(Call("create", str(path)))
            return fd

        def watched_write(fd: int, data: bytes) -> int:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            time.sleep(0.005)  # a disk slower than a step: who doesn't wait for it is seen
            written = write(fd, data)
            durable = flags & os.O_DSYNC == os.O_DSYNC
            self.calls.append(Call("write", path_of(fd), durable=durable))
            return written

        def watched_fsync(fd: int) -> None:
            fsync(fd)
            self.calls.append(Call("fsync", path_of(fd), size=os.fstat(fd).st_size))

        def watched_replace(source: Any, target: Any, **options: Any) -> None:
            size = Path(source).stat().st_size
            replace(source, target, **options)
            self.calls.append(Call("replace", str(source), str(target), size))

        def watched_unlink(path: Any, **options: Any) -> None:
            unlink(path, **options)
            self.calls.append(Call("unlink", str(path)))

        def watched_add(*args: Any, **options: Any) -> Any:
            self.calls.append(Call("noise", ""))
            return add(*args, **options)

        patch.setattr(os, "open", watched_open)
        patch.setattr(os, "write", watched_write)
        patch.setattr(os, "fsync", watched_fsync)
        patch.setattr(os, "replace", watched_replace)
        patch.setattr(os, "unlink", watched_unlink)
        patch.setattr(GaussianStream, "add_", watched_add)

    def places(self, name: str, path: Path) -> list[int]:
        """Return where in the record a file was the object of a call."""
        found = []
        for place, call in enumerate(self.calls):
            if call.name == name and str(path) in (call.path, call.target):
                found.append(place)
        return found

    def synced(self, path: Path, *, after: int, before: int | None = None) -> list[Call]:
        """Return the syncs of a file or directory between two places in the record."""
        return [
            call
            for call in self.calls[after:before]
            if call == Call("fsync", str(path), size=call.size)
        ]


def path_of(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def command(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Disk]]:
    """Make one run that writes every kind of file, evaluate it, and record the calls."""
    folder = tmp_path_factory.mktemp("durability")
    (folder / "spec.yaml").write_text(SPEC.replace("holdout: public", "holdout: private"))
    disk = Disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPPIPE_STORE", str(folder / "store" / "budgets.db"))
        given = ["--epsilon", "8", "--delta", "1e-5", "--like", folder / "spec.yaml"]
        command("budget", "create", "clinic", *given)
        disk.watch(patch)
        changes = ["budget.scope=clinic", f"train.steps={STEPS}", "train.checkpoint_every=2"]
        changes.append("data.normalize={kind: private, noise_multiplier: 10, lower: -4, upper: 4}")
        words: list[object] = ["run", folder / "spec.yaml", "--run-dir", folder / "run"]
        for change in changes:
            words += ["--set", change]
        command(*words)
        command("evaluate", folder / "run")
    yield folder, disk
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", REPLACED)
def test_a_file_is_synced_whole_before_it_gets_its_name_and_its_directory_after(
    recorded: tuple[Path, Disk], name: str
) -> None:
    folder, disk = recorded
    file = folder / "run" / name
    places = disk.places("replace", file)
    assert places
    for place in places:
        call = disk.calls[place]
        before = disk.synced(Path(call.path), after=0, before=place)
        assert [synced.size for synced in before][-1:] == [call.size]
        assert disk.synced(file.parent, after=place)[:1]
        assert disk.calls[place + 1] == disk.synced(file.parent, after=place)[0]


@pytest.mark.parametrize("name", APPENDED)
def test_every_write_to_an_appended_file_is_on_the_disk_when_it_returns(
    recorded: tuple[Path, Disk], name: str
) -> None:
    folder, disk = recorded
    writes = disk.places("write", folder / "run" / name)
    assert writes
    assert all(disk.calls[place].durable for place in writes)


def test_the_names_of_ledger_and_identity_are_durable_before_anything_is_charged(
    recorded: tuple[Path, Disk],
) -> None:
    folder, disk = recorded
    first_row = disk.places("write", folder / "run" / "ledger.jsonl")[0]
    identity = disk.places("write", folder / "run" / "budget.json")[0]
    assert disk.synced(folder / "run", after=identity, before=first_row)
    assert disk.synced(folder, after=0, before=first_row)


def test_each_file_of_a_new_run_is_on_the_disk_before_what_refers_to_it(
    recorded: tuple[Path, Disk],
) -> None:
    folder, disk = recorded
    run = folder / "run"
    made = [
        disk.places("replace", run / "config.yaml")[0],
        disk.places("replace", run / "plan.json")[0],
        disk.places("create", run / "ledger.jsonl")[0],
        disk.places("replace", run / "origin.json")[0],
        disk.places("create", run / "budget.json")[0],
        disk.places("write", run / "ledger.jsonl")[0],
    ]
    for earlier, later in pairwise(made):
        assert disk.synced(run, after=earlier, before=later)


def test_every_row_is_on_the_disk_before_the_noise_of_its_release(
    recorded: tuple[Path, Disk],
) -> None:
    folder, disk = recorded
    rows = disk.places("write", folder / "run" / "ledger.jsonl")
    releases = [place for place, call in enumerate(disk.calls) if call.name == "noise"]
    assert len(rows) == len(releases) == 1 + STEPS
    assert all(row < release for row, release in zip(rows, releases, strict=True))


def test_a_run_writes_no_file_that_no_test_here_looks_at(recorded: tuple[Path, Disk]) -> None:
    folder, _ = recorded
    files = {
        str(file.relative_to(folder / "run"))
        for file in (folder / "run").rglob("*")
        if file.is_file()
    }
    curves = {name for name in files if "tfevents" in name}
    assert files - curves == {*REPLACED, *APPENDED}


def test_a_finished_runs_line_and_the_name_of_its_file_are_synced(
    recorded: tuple[Path, Disk],
) -> None:
    folder, disk = recorded
    file = folder / "store" / "finished_runs.jsonl"
    last = disk.places("write", file)[-1]
    assert [call.size for call in disk.synced(file, after=last)] == [file.stat().st_size]
    assert disk.synced(file.parent, after=last)


def test_the_store_of_budgets_syncs_every_transaction(tmp_path: Path) -> None:
    with Database(tmp_path / "budgets.db").transaction() as connection:
        value = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    assert value == 3, "EXTRA: the journal's directory is synced as well"


def test_the_name_of_a_new_ledger_is_durable_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    folder = tmp_path / "new" / "run"
    folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        disk.watch(patch)
        Ledger.create(folder / "ledger.jsonl", plan=b"{}").close()
    for directory in (folder, folder.parent, tmp_path):
        assert disk.synced(directory, after=0)


ENDS: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data[:-200],
    "no newline": lambda data: data[:-1],
}


@pytest.mark.parametrize("end", ENDS)
def test_what_closes_the_end_of_a_ledger_is_on_the_disk_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    plan = write_run(tmp_path / "run", charged=2)
    file = tmp_path / "run" / "ledger.jsonl"
    file.write_bytes(ENDS[end](file.read_bytes()))
    disk = Disk()
    with monkeypatch.context() as patch:
        disk.watch(patch)
        with Ledger.open(file, plan=plan.to_json()) as ledger:
            if ledger.torn:
                ledger.close_torn(a_charge(parts(Constant(noise_multiplier=1.0)), plan, step=2))
    writes = disk.places("write", file)
    assert len(writes) == 1
    assert disk.calls[writes[0]].durable


def test_the_summary_of_an_earlier_end_is_gone_for_good_before_the_next_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    run = tmp_path / "run"
    finish = RunRecord.step

    def then_stop(record: RunRecord, **facts: Any) -> None:
        finish(record, **facts)
        if record.ledger.rows == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "step", then_stop)
        done = CliRunner().invoke(app, ["run", str(tmp_path / "spec.yaml"), "--run-dir", str(run)])
        assert done.exit_code == 130, done.output
    disk = Disk()
    with monkeypatch.context() as patch:
        disk.watch(patch)
        command("resume", run)
    next_row = disk.places("write", run / "ledger.jsonl")[0]
    for name in ("summary.json", "privacy.md", "privacy.json"):
        removed = disk.places("unlink", run / name)[0]
        assert disk.synced(run, after=removed, before=next_row)


def test_the_directory_of_released_values_is_named_on_the_disk_before_a_value_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory.create("released", run_dir=tmp_path / "run")
    release = PlannedRelease(what="count", event={"type": "NoOpDpEvent"})
    plan = write_run(tmp_path / "other").model_copy(update={"releases": (release,)})
    disk = Disk()
    disk.watch(monkeypatch)
    ReleasedValues(run, plan).save(0, torch.zeros(1))
    assert disk.synced(run.path, after=0)
    assert disk.synced(run.path / "released", after=0)
