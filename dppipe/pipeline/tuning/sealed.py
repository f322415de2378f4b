"""What a search keeps secret while it goes on: its order of candidates, and the best run so far.

Everything is under `tune/sealed`, which only its owner may read. `order.json` is written once.
`progress.json` is replaced as a whole after each run, and holds one score: the best one. The file
`tune/begun` says that a run may have begun, so that a lost order is never drawn a second time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.durable import sync, sync_names
from dppipe.errors import PrivacyRefusal
from dppipe.runs.directory import cannot_write, replacing

if TYPE_CHECKING:
    from dppipe.runs.directory import RunDirectory


@dataclass(frozen=True)
class Progress:
    """How far a search has come."""

    done: int = 0
    """How many runs are over."""
    best: int | None = None
    """The number of the best run so far; None while every run has failed."""
    score: float | None = None
    """Its score."""


class Sealed:
    """The secret files of one search.

    Guarantees:
    - An order that was written is never drawn again.
    - After `record` returns, no file holds the score of a run that has lost.
    """

    def __init__(self, run: RunDirectory, *, row: str) -> None:
        """Take the search's directory, and the hash of the row that has paid."""
        self.path = run.path / "tune" / "sealed"
        self.order: tuple[int, ...] = ()
        """The candidate of each run."""
        self.progress = Progress()
        self._row = row
        self._begun = run.path / "tune" / "begun"

    @property
    def is_over(self) -> bool:
        """Whether all runs are over."""
        return self.progress.done >= len(self.order)

    def place(self, number: int) -> Path:
        """Return the directory of a run."""
        return self.path / str(number)

    def open(self, draw: Callable[[], tuple[int, ...]], *, candidates: int) -> None:
        """Read the order and the progress; draw the order where no run can have begun.

        Args:
            draw: Draws the number of runs and the candidate of each.
            candidates: How many candidates there are.
        """
        _make_private(self.path)
        order = self.path / "order.json"
        progress = self.path / "progress.json"
        begun = self._begun.exists() or progress.exists() or self._holds_runs()
        if not begun and not order.exists():
            self._write(order, list(draw()))
        self.order = self._read_order(order, candidates=candidates)
        if begun:
            self.progress = self._read_progress(progress)
        else:
            self._write(progress, asdict(self.progress))
        if not self._begun.exists():
            self._begun.touch()
            sync_names(self._begun)
        self._delete_others()

    def record(self, *, score: float | None, wins: bool) -> None:
        """Note the score of the run that has just ended, then delete the run that has lost."""
        number = self.progress.done
        after = Progress(number + 1, self.progress.best, self.progress.score)
        if wins and score is not None:
            after = Progress(number + 1, number, score)
        self._write(self.path / "progress.json", asdict(after))
        self.progress = after
        self._delete_others()

    def delete(self) -> None:
        """Delete everything that is secret."""
        if self.path.exists():
            shutil.rmtree(self.path)
            sync(self.path.parent)

    def _delete_others(self) -> None:
        """Delete all but the best run so far and the one that comes next."""
        kept = {"order.json", "progress.json", str(self.progress.done), str(self.progress.best)}
        for found in self.path.iterdir():
            if found.name not in kept:
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        sync(self.path)

    def _holds_runs(self) -> bool:
        """Whether the directory of a run is there."""
        return any(found.is_dir() for found in self.path.iterdir())

    def _write(self, path: Path, content: Any) -> None:
        said = {"row": self._row, "content": content}
        whole = said | {"hash": _digest(said)}
        with replacing(path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(whole, file)

    def _read(self, path: Path) -> Any:
        try:
            whole = json.loads(path.read_bytes())
            said = {"row": whole["row"], "content": whole["content"]}
            if whole["hash"] != _digest(said) or whole["row"] != self._row:
                raise ValueError
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise _lost(path) from None
        return said["content"]

    def _read_order(self, path: Path, *, candidates: int) -> tuple[int, ...]:
        order = self._read(path)
        if not isinstance(order, list):
            raise _lost(path)
        for candidate in order:
            if not isinstance(candidate, int) or not 0 <= candidate < candidates:
                raise _lost(path)
        return tuple(order)

    def _read_progress(self, path: Path) -> Progress:
        try:
            progress = Progress(**self._read(path))
            if not 0 <= progress.done <= len(self.order):
                raise ValueError
        except (TypeError, ValueError):
            raise _lost(path) from None
        return progress


def _make_private(path: Path) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise cannot_write(path, error) from error
    sync_names(path)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _lost(path: Path) -> PrivacyRefusal:
    return PrivacyRefusal(
        f"{path}: expected what the search has written, got nothing or something else. The number "
        "of runs may not be drawn a second time, so the search can't go on. What was charged stays "
        "spent: start a new search."
    )
