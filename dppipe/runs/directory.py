"""The run directory: where each file of a run stands, and how a file is written so that it is never half there."""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dppipe.durable import sync
from dppipe.errors import DppipeError, PrivacyRefusal, UsageError

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run."""

    path: Path
    original_is_gone: bool = False
    """Whether the user says of a copied or moved directory that the original will never go on."""

    @property
    def how_to_resume(self) -> str:
        """Say how to go on with the run: by a command where it has a spec, else in Python."""
        if self.config.exists():
            return f"dppipe resume {self.path}"
        return f"DPCallback(resume=RunDirectory.open({str(self.path)!r}), ...)"

    @property
    def config(self) -> Path:
        """The effective spec."""
        return self.path / "config.yaml"

    @property
    def plan(self) -> Path:
        """The plan as data."""
        return self.path / "plan.json"

    @property
    def ledger(self) -> Path:
        """One line per charge."""
        return self.path / "ledger.jsonl"

    @property
    def summary(self) -> Path:
        """How the run ended."""
        return self.path / "summary.json"

    @property
    def statement(self) -> Path:
        """The privacy statement for people; the one for programs stands beside it, ending in `.json`."""
        return self.path / "privacy.md"

    @property
    def statistics(self) -> Path:
        """The noisy centres and spreads that inputs are scaled by, where the run has released some."""
        return self.path / "statistics.json"

    @property
    def last_checkpoint(self) -> Path:
        """Lightning's checkpoint, for resume."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def final_checkpoint(self) -> Path:
        """The bare state dict of the trained model."""
        return self.path / "checkpoints" / "final.ckpt"

    @classmethod
    def create(
        cls,
        name: str,
        *,
        run_dir: Path | None = None,
        root: Path = Path("runs"),
        option: str = "--run-dir",
    ) -> RunDirectory:
        """Make the directory of a new run; one that already holds a ledger is refused.

        Messages name the `option` by which the user chooses another directory.
        """
        if run_dir is None:
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            run_dir = root / name / f"{stamp}-{secrets.token_hex(3)}"
        run = cls(Path(run_dir))
        try:
            if run.ledger.exists():
                raise PrivacyRefusal(
                    f"{run.path}: expected a new run directory, got one that holds a ledger. "
                    f"Its spending stays on record: choose another {option}."
                )
            if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
                raise UsageError(
                    f"{run.path}: expected a new or empty directory. Choose another {option}."
                )
            run.last_checkpoint.parent.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"{run.path}: the run directory can't be made: {error.strerror}. Choose another {option}."
            ) from None
        return run

    @classmethod
    def open(cls, path: Path | str, *, original_is_gone: bool = False) -> RunDirectory:
        """Find a finished or interrupted run, where its path really leads; a link inside it is refused.

        Through a link inside, a run could be read from one place and charged in another.

        Args:
            path: The run directory.
            original_is_gone: Whether a copied or moved directory may go on, as the original never will.
        """
        try:
            run = cls(Path(path).resolve(strict=True), original_is_gone)
            linked = [
                file
                for file in (run.config, run.plan, run.ledger, run.summary)
                if file.is_symlink()
            ]
            linked += [
                file
                for file in (run.last_checkpoint.parent, *run.last_checkpoint.parent.glob("*"))
                if file.is_symlink()
            ]
            there = run.plan.is_file()
        except (
            OSError,
            RuntimeError,
            ValueError,
        ):  # not there, not allowed, a loop of links, a null byte
            there, linked = False, []
        if not there:
            raise UsageError(
                f"{path}: expected a run directory, with a plan.json in it. Runs stand in runs/<name>/<time>-<id>."
            )
        if linked:
            raise UsageError(
                f"{linked[0]}: expected a file or folder of the run's own, got a symbolic link. Put the real one there."
            )
        return run

    def clean_up(self) -> None:
        """Remove what a crash has left half-written; only the holder of the ledger's lock may do this."""
        for folder in (self.path, self.last_checkpoint.parent):
            for leftover in folder.glob(".*.tmp-*"):
                with suppress(OSError):
                    leftover.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name in the same directory; what is written there becomes `path`, synced and whole, or nothing does."""
    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def cannot_write(path: Path, error: OSError) -> DppipeError:
    """Say that a file of the run can't be written; the one that stood there before still does."""
    message = f"{path}: expected a file that can be written, got: {error.strerror or type(error).__name__}."
    if error.errno in _NOT_ALLOWED:
        return UsageError(f"{message} Choose a directory that this user may write to.")
    return DppipeError(f"{message} Make room or mend the disk, then resume the run.")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, data: Any) -> None:
    """Write plain data as a JSON file, whole or not at all."""
    write_whole(path, json.dumps(data, indent=2, allow_nan=False).encode() + b"\n")
