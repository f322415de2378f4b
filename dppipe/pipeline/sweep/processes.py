"""The runs of a sweep as processes: some at a time, each stopped when the sweep is.

A run's process is in a session of its own, so that a Ctrl-C reaches it once, from here. It reads
the end of its standard input: when the sweep's process is gone, however it ended, the run stops
after its step and can be resumed (`child.py`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from dppipe.pipeline.sweep.directory import SweepDirectory, is_running

COMMAND = (sys.executable, "-m", "dppipe.pipeline.sweep.child")
"""What starts a run's process; the words of a `dppipe` command follow."""
_POLL = 0.05
"""Seconds between two looks at the processes."""
_PATIENCE = 60.0
"""Seconds for a run whose sweep was killed to stop by itself."""


@dataclass(frozen=True)
class Ended:
    """How the process of a run ended."""

    number: int
    exit_code: int
    seconds: float


class Processes:
    """Runs processes of a sweep, at most `jobs` at a time."""

    def __init__(self, sweep: SweepDirectory, *, jobs: int, plugins: Path | None) -> None:
        self._sweep = sweep
        self._jobs = jobs
        self._plugins = plugins
        self._running: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._signal: int | None = None

    def run(self, numbers: Sequence[int], *, ended: Callable[[Ended], None]) -> int | None:
        """Run all of these; return the signal that has stopped those under way, if one came.

        Args:
            numbers: The runs, in the order in which they start.
            ended: Called as each ends.
        """
        waiting = list(numbers)
        before = {}
        for known in (signal.SIGINT, signal.SIGTERM):
            before[known] = signal.signal(known, self._stop)
        try:
            while self._running or (waiting and self._signal is None):
                while waiting and len(self._running) < self._jobs and self._signal is None:
                    self._start(waiting.pop(0))
                for one in self._collect():
                    ended(one)
                time.sleep(_POLL)
        finally:
            self._end_all()
            for known, handler in before.items():
                signal.signal(known, handler)
        return self._signal

    def _start(self, number: int) -> None:
        sweep = self._sweep
        run = sweep.run_dir(number)
        self._wait_for(run)
        if sweep.state(number) == "begun":
            words = ["resume", str(run)]
        else:
            sweep.clear_unbegun(number)
            words = ["run", str(sweep.spec(number)), "--run-dir", str(run)]
        if self._plugins is not None:
            words += ["--plugins", str(self._plugins)]
        command = [*COMMAND, *words]
        with sweep.log(number).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(self._jobs),
                start_new_session=True,
            )
        self._running[number] = (process, time.monotonic())
        if self._signal is not None:  # it came while the process started
            process.send_signal(self._signal)

    def _wait_for(self, run: Path) -> None:
        """Wait for a process of a killed sweep that is still stopping."""
        deadline = time.monotonic() + _PATIENCE
        while is_running(run) and time.monotonic() < deadline and self._signal is None:
            time.sleep(_POLL)

    def _collect(self) -> list[Ended]:
        """Return the processes that have ended since the last look."""
        found = []
        for number, (process, since) in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[number]
                _close(process)
                found.append(Ended(number, code, time.monotonic() - since))
        return found

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Hand a signal to every run; a second Ctrl-C ends them at once, as it ends one run."""
        self._signal = self._signal or number
        for process, _ in list(self._running.values()):
            process.send_signal(number)

    def _end_all(self) -> None:
        """Stop what still runs when an error ends the sweep itself."""
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            process.wait()
            _close(process)
        self._running.clear()


def _close(process: subprocess.Popen[Any]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def _environment(jobs: int) -> dict[str, str]:
    """Return the environment of a run: its share of the cores, unless the user has chosen."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    return {"OMP_NUM_THREADS": str(threads)} | dict(os.environ)
