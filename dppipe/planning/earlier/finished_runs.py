"""The file of finished runs: the weights that private runs have trained, and what they cost.

Every private run adds a line when it ends: the hash of each tensor that it trained, and its events.
So a copy of its weights is recognised in any place, even if the run directory is gone. The file is
in the folder of the local store of budgets.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from dppipe.durable import sync_names
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.local_folder import local_folder
from dppipe.planning.earlier.runs import EarlierRun
from dppipe.planning.frozen_data import FrozenData

_NAME = "finished_runs.jsonl"


class FinishedRun(FrozenData):
    """One line of the file."""

    version: int = 1
    hashes: tuple[str, ...]
    """The SHA-256 of each tensor that the run has trained, without those that it started from."""
    runs: tuple[EarlierRun, ...]
    """The run, then the runs whose weights it started from."""


@dataclass(frozen=True)
class FinishedRuns:
    """A file of finished runs."""

    path: Path

    def add(self, run: FinishedRun) -> None:
        """Append a whole line durably; the line before it may have been cut off by a crash."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            line = run.model_dump_json().encode() + b"\n"
            if not _ends_with_newline(descriptor):
                line = b"\n" + line
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_names(self.path)

    def find(self, hashes: Collection[str], *, strict: bool) -> list[EarlierRun]:
        """Return the runs that have trained any of these tensors, and the runs before them.

        Args:
            hashes: The hashes of the tensors.
            strict: Whether a line that can't be read is refused: it may be the line of such a run.
        """
        wanted = set(hashes)
        found: list[EarlierRun] = []
        if not wanted:
            return found
        for line in self._lines(strict=strict):
            if not wanted.isdisjoint(line.hashes):
                found += line.runs
        return found

    def _lines(self, *, strict: bool) -> Iterator[FinishedRun]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if not strict:
                return
            message = f"expected a file that can be read, got: {error.strerror}. Allow it."
            raise UsageError(f"{self.path}: {message}") from error
        for number, line in enumerate(lines, start=1):
            try:
                if line:
                    yield FinishedRun.model_validate_json(line)
            except ValidationError:
                if strict:
                    raise PrivacyRefusal(
                        f"{self.path}:{number}: expected the line of a finished run, got "
                        "something else. It may stand for the run that trained these weights: "
                        "restore the line, or delete it if you know that it doesn't."
                    ) from None


def finished_runs() -> FinishedRuns:
    """Return the file beside the one that DPPIPE_STORE names; else the one in `.dppipe`."""
    return FinishedRuns(local_folder() / _NAME)


def _ends_with_newline(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
