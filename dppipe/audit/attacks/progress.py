"""Progress of an attack: a bar on a terminal, plain lines elsewhere. It shows no result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """What an attack tells of how far it is."""

    def begin(self, total: int) -> None:
        """Say how many pieces of work there are; a later call says so anew."""
        ...

    def next(self, what: str) -> None:
        """Say that a piece of work starts: the one before it has ended."""
        ...


class Silent:
    """Says nothing."""

    def begin(self, total: int) -> None:
        """Say nothing."""

    def next(self, what: str) -> None:
        """Say nothing."""


class Shown(AbstractContextManager["Shown"]):
    """Shows progress on a console, and removes the bar at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._begun = 0
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, total: int) -> None:
        """Show an empty bar on a terminal."""
        self._total = total
        self._begun = 0
        if not self._console.is_terminal:
            return
        if self._bar is None:
            columns = (
                TextColumn("{task.completed}/{task.total}"),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
            )
            self._bar = RichProgress(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.reset(self._bar.task_ids[0], total=total)

    def next(self, what: str) -> None:
        """Move the bar, or print a line."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._begun, description=what)
        else:
            self._console.print(f"{self._begun + 1}/{self._total}  {what}", highlight=False)
        self._begun += 1
