"""Ways to die: a signal, a killed rank, or a disk that takes nothing more, at a random instant or file operation."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIGNALS = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "interrupt": signal.SIGINT,
    "rank-kill": signal.SIGKILL,
}


@dataclass(frozen=True)
class Death:
    """How a life is to end; `after` is a time in seconds, or a number of file operations or releases of the victim."""

    means: str
    """kill, term, interrupt, term-kill, interrupt-twice, full-disk, file-limit, or rank-kill: one process of two."""
    after: float
    at: str = "time"
    rank: int = 0
    """Who is to die, by rank-kill; all other ways strike every process."""

    @classmethod
    def draw(
        cls, dice: random.Random, *, means: list[str], seconds: float, operations: int
    ) -> Death:
        """Draw a way to die and its instant."""
        way = dice.choice(means)
        rank = dice.randint(0, 1) if way == "rank-kill" else 0
        if way in SIGNALS and dice.random() < 0.5:
            return cls(way, dice.randint(1, operations), "operation", rank)
        return cls(way, dice.uniform(0, seconds), rank=rank)

    def strikes(self, rank: int) -> bool:
        """Whether this process is meant."""
        return self.means != "rank-kill" or rank == self.rank


def die_at_operation(count: int, number: int, *, run_dir: Path) -> None:
    """Send this process a signal when it comes to its so-many-th file operation in the run directory."""
    left = count

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(arguments[0]).startswith(
            str(run_dir)
        ):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)

    sys.addaudithook(hook)


def strike(child: int, means: str, *, disk: Path | None) -> None:
    """Let a process die in one of the ways that come from outside."""
    if means in SIGNALS:
        os.kill(child, SIGNALS[means])
    elif means == "term-kill":
        os.kill(child, signal.SIGTERM)
        if not gone_after(child, random.uniform(0, 0.05)):
            os.kill(child, signal.SIGKILL)
    elif means == "interrupt-twice":
        os.kill(child, signal.SIGINT)
        if not gone_after(child, random.uniform(0, 0.02)):
            os.kill(child, signal.SIGINT)
    elif means == "file-limit":
        # No file may grow beyond this any more: the kernel itself cuts a write short, as a full disk does.
        resource.prlimit(child, resource.RLIMIT_FSIZE, (random.randint(0, 20_000),) * 2)
    elif means == "full-disk" and disk is not None:
        fill(disk)


def gone_after(child: int, seconds: float) -> bool:
    """Wait, and say whether a process has ended; it is still to be waited for."""
    time.sleep(seconds)
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def fill(disk: Path) -> None:
    """Take up all the room that is left on a file system."""
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        while True:
            ballast.write(bytes(256))
