"""The run directory: where each file of a run is, and how files are written whole or not at all."""

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
from dppipe.text_layout import shown_command

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run.

    Example:
        >>> from dppipe import RunDirectory
        >>> run = RunDirectory.open("runs/first")
        >>> run.statement.name, run.ledger.name
        ('privacy.md', 'ledger.jsonl')
    """

    path: Path
    original_is_gone: bool = False
    """Whether the user says of a copied or moved directory that the original will never go on."""

    @property
    def how_to_resume(self) -> str:
        """How to resume the run: by a command where it has a spec, else in Python."""
        if self.config.exists():
            return shown_command("resume", self.path)
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
        """The privacy statement for people; the one for programs ends in `.json`."""
        return self.path / "privacy.md"

    @property
    def statement_data(self) -> Path:
        """The privacy statement for programs."""
        return self.statement.with_suffix(".json")

    @property
    def report(self) -> Path:
        """The page that shows the run: one file, without what is under `nonprivate/`."""
        return self.path / "report.html"

    @property
    def private_report(self) -> Path:
        """The same page with the numbers that no guarantee covers."""
        return self.path / "nonprivate" / "report.html"

    @property
    def pages(self) -> tuple[Path, Path]:
        """Both pages of the run, whether they exist or not."""
        return self.report, self.private_report

    @property
    def statistics(self) -> Path:
        """The noisy centres and spreads that inputs are scaled by, if the run released some."""
        return self.path / "statistics.json"

    @property
    def projection(self) -> Path:
        """The directions that inputs are projected on, if the run released some."""
        return self.path / "projection.pt"

    @property
    def attacks(self) -> Path:
        """The folder of what attacks on the model have found, without noise."""
        return self.path / "nonprivate" / "attack"

    @property
    def made_up_attacks(self) -> Path:
        """The folder of what attacks on made-up records have found; no real record is in it."""
        return self.path / "attack"

    @property
    def last_checkpoint(self) -> Path:
        """Lightning's checkpoint, for resume."""
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def final_checkpoint(self) -> Path:
        """The bare state dict of the trained model."""
        return self.path / "checkpoints" / "final.ckpt"

    @property
    def audit_plan(self) -> Path:
        """What an audit of this run fixed before the first charge, if it is audited from inside."""
        return self.path / "audit" / "plan.json"

    @property
    def audit_coins(self) -> Path:
        """Which canaries are in the training: secret until the run has ended."""
        return self.path / "audit" / "coins.json"

    @property
    def audit_scores(self) -> Path:
        """What the releases so far say about each canary."""
        return self.path / "audit" / "scores.json"

    @property
    def audit_result(self) -> Path:
        """What an audit found."""
        return self.path / "audit.json"

    @classmethod
    def create(
        cls,
        name: str,
        *,
        run_dir: Path | None = None,
        root: Path = Path("runs"),
        option: str = "--run-dir",
    ) -> RunDirectory:
        """Make the directory of a new run; one that already contains a ledger is refused.

        Messages name the `option` by which the user chooses another directory.
        """
        if run_dir is None:
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            run_dir = root / name / f"{stamp}-{secrets.token_hex(3)}"
        run = cls(Path(run_dir))
        try:
            if run.ledger.exists():
                raise PrivacyRefusal(
                    f"{run.path}: expected a new run directory, got one that contains a ledger. "
                    f"Its spending stays on record: choose another {option}."
                )
            if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
                raise UsageError(
                    f"{run.path}: expected a new or empty directory. Choose another {option}."
                )
            run.last_checkpoint.parent.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"{run.path}: the run directory can't be made: {error.strerror}. Choose another "
                f"{option}."
            ) from None
        return run

    @classmethod
    def open(cls, path: Path | str, *, original_is_gone: bool = False) -> RunDirectory:
        """Find a finished or interrupted run, where its path really leads.

        A link inside is refused: a run could be read from one place and charged in another.

        Args:
            path: The run directory.
            original_is_gone: Whether a copied or moved directory may go on, as the original never
                will.
        """
        try:
            run = cls(Path(path).resolve(strict=True), original_is_gone)
            linked = run._links()
            found = run.plan.is_file()
        except (OSError, RuntimeError, ValueError):
            # The path doesn't exist, isn't allowed, is a loop of links or holds a null byte.
            found = False
        if not found:
            raise UsageError(
                f"{path}: expected a run directory, with a plan.json in it. Runs stand in "
                "runs/<name>/<time>-<id>."
            )
        if linked:
            raise UsageError(
                f"{linked[0]}: expected a file or folder of the run's own, got a symbolic link. "
                "Put the real one there."
            )
        return run

    def _links(self) -> list[Path]:
        """Return the run's files and folders that are symbolic links."""
        checkpoints = self.last_checkpoint.parent
        files = [self.config, self.plan, self.ledger, self.summary, checkpoints]
        files += checkpoints.glob("*")
        return [file for file in files if file.is_symlink()]

    def clean_up(self) -> None:
        """Remove what a crash has left half-written.

        Only the holder of the ledger's lock may do this.
        """
        for folder in (self.path, self.last_checkpoint.parent):
            for leftover in folder.glob(".*.tmp-*"):
                with suppress(OSError):
                    leftover.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the same directory.

    What is written there becomes `path`, synced and whole, or nothing does.
    """
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
    """Return the error for a file of the run that can't be written; the one before is kept."""
    reason = error.strerror or type(error).__name__
    message = f"{path}: expected a file that can be written, got: {reason}."
    if error.errno in _NOT_ALLOWED:
        return UsageError(f"{message} Choose a directory that this user may write to.")
    return DppipeError(f"{message} Make room or fix the disk, then resume the run.")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, data: Any) -> None:
    """Write plain data as a JSON file, whole or not at all."""
    write_whole(path, json.dumps(data, indent=2, allow_nan=False).encode() + b"\n")
