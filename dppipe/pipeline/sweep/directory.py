"""The directory of a sweep: its runs in order, the spec of each, and how far each has come.

`sweep.json` is written before the first run starts and never changes. A run's own files say how far
it is, so that a sweep which was killed anywhere goes on where it was.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.runs.directory import cannot_write, write_json, write_whole
from dppipe.runs.ledger_file import lock
from dppipe.spec.spec import spec_hash

if TYPE_CHECKING:
    from dppipe.pipeline.sweep.sweep_run import SweepRun

State = Literal["new", "begun", "finished"]
_VERSION = 1


@dataclass(frozen=True)
class SweepDirectory:
    """The files of one sweep."""

    path: Path

    @property
    def manifest(self) -> Path:
        """What the sweep is made of."""
        return self.path / "sweep.json"

    def run_dir(self, number: int) -> Path:
        """Return the run directory of a run; runs count from 1."""
        return self.path / f"{number:03d}"

    def spec(self, number: int) -> Path:
        """Return the effective spec of a run."""
        return self.path / "specs" / f"{number:03d}.yaml"

    def log(self, number: int) -> Path:
        """Return the file of what a run's process prints."""
        return self.path / "logs" / f"{number:03d}.txt"

    def state(self, number: int) -> State:
        """Return how far a run has come, by its own files."""
        run = self.run_dir(number)
        if _status(run) in ("completed", "budget_exhausted"):
            return "finished"
        return "begun" if (run / "ledger.jsonl").exists() else "new"

    def clear_unbegun(self, number: int) -> None:
        """Remove what a run has left that was killed before it could charge anything."""
        run = self.run_dir(number)
        if self.state(number) != "new" or not run.exists():
            return
        if run.is_symlink() or not run.is_dir():
            raise UsageError(f"{run}: expected a folder of the sweep's own, got something else.")
        shutil.rmtree(run)


def new_sweep(name: str, run_dir: Path | None) -> SweepDirectory:
    """Return where a sweep goes: `runs/<name>/sweep-...` unless the user chooses."""
    if run_dir is None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        run_dir = Path("runs") / name / f"sweep-{stamp}-{secrets.token_hex(3)}"
    return SweepDirectory(run_dir)


def begin(sweep: SweepDirectory, runs: Sequence[SweepRun], *, facts: dict[str, Any]) -> None:
    """Write what a new sweep is made of, or compare a sweep that has begun with it.

    Another grid, spec or number of seeds in one directory is refused.
    """
    listed = [{"options": dict(run.options), "seed": run.spec.seed} for run in runs]
    hashes = [spec_hash(run.spec) for run in runs]
    made = {"version": _VERSION, **facts, "runs": listed, "specs": hashes}
    if sweep.manifest.exists():
        if read_manifest(sweep).get("specs") != hashes:
            raise UsageError(
                f"{sweep.path}: expected the sweep that this directory has begun, got another "
                "grid, spec or number of seeds. Choose another --run-dir; `dppipe compare` takes "
                "both."
            )
        return
    _make(sweep)
    for number, run in enumerate(runs, start=1):
        write_whole(sweep.spec(number), run.spec.to_yaml().encode())
    write_json(sweep.manifest, made)


def read_manifest(sweep: SweepDirectory) -> dict[str, Any]:
    """Return what a sweep is made of."""
    try:
        data = json.loads(sweep.manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not {"runs", "specs", "grid", "seeds"} <= data.keys():
        raise UsageError(
            f"{sweep.path}: expected the directory of a sweep, with a sweep.json in it."
        )
    if data.get("version") != _VERSION:
        raise UsageError(f"{sweep.manifest}: expected version {_VERSION}, got another.")
    return data


@contextmanager
def holding(sweep: SweepDirectory) -> Iterator[None]:
    """Keep every other process from running the same sweep."""
    path = sweep.path / ".lock"
    try:
        sweep.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        lock(fd, path=path)
        yield
    finally:
        os.close(fd)


def is_running(run: Path) -> bool:
    """Whether another process is writing a run's ledger."""
    try:
        fd = os.open(run / "ledger.jsonl", os.O_RDWR)
    except OSError:
        return False
    try:
        lock(fd, path=run)
    except PrivacyRefusal:
        return True
    finally:
        os.close(fd)
    return False


def check_place(sweep: SweepDirectory) -> None:
    """Refuse a directory with other files, before anything is written there.

    A sweep that was killed before its manifest was whole has left nothing but specs.
    """
    path = sweep.path
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: expected a directory, got a file. Choose another --run-dir.")
    found = {child.name for child in path.iterdir()} if path.is_dir() else set()
    if not sweep.manifest.exists() and found - {"specs", "logs", ".lock"}:
        raise UsageError(
            f"{path}: expected a new or empty directory, or one of a sweep. Choose another "
            "--run-dir."
        )


def _make(sweep: SweepDirectory) -> None:
    try:
        sweep.spec(1).parent.mkdir(parents=True, exist_ok=True)
        sweep.log(1).parent.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(sweep.path, error) from error


def _status(run: Path) -> str:
    try:
        summary = json.loads((run / "summary.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    return str(summary.get("status", "")) if isinstance(summary, dict) else ""
