"""One life of a run: a forked process that runs a `dppipe` command and is stopped at a random instant, or not at all.

The parent has imported everything, so that a life costs a fraction of a second. What a life releases is counted by hooks on
torch's optimizers, which know nothing of dppipe: a mark when a gradient has reached one, another when the update is done.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from dppipe.cli.app import app

SECONDS_TO_FINISH = 60.0


@dataclass(frozen=True)
class Death:
    """How a life is to end; `after` is a time in seconds or a number of file operations in the run directory."""

    means: str
    """kill, term, interrupt, term-kill, interrupt-twice, full-disk or file-limit."""
    after: float
    at: str = "time"

    @classmethod
    def draw(cls, dice: random.Random, *, means: list[str], seconds: float, operations: int) -> Death:
        """Draw a way to die and its instant."""
        way = dice.choice(means)
        if way in ("kill", "term", "interrupt") and dice.random() < 0.5:
            return cls(way, dice.randint(1, operations), "operation")
        return cls(way, dice.uniform(0, seconds))


@dataclass(frozen=True)
class End:
    """How a life ended."""

    code: int
    """The exit code, or minus the signal that ended it."""
    output: str
    released: int
    """How many gradients have reached the optimizer."""
    updated: int
    """How many updates were done."""


SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "interrupt": signal.SIGINT}


def live(words: list[str], *, run_dir: Path, death: Death | None = None, disk: Path | None = None) -> End:
    """Run a command in a process of its own until it ends or dies; `disk` is a small file system that can be filled."""
    # What a life says fits into a pipe's buffer, and a pipe is never a full disk.
    said, says = os.pipe()
    counted, counts = os.pipe()
    child = os.fork()
    if child == 0:
        _run(words, run_dir=run_dir, says=says, counts=counts, death=death)
    os.close(says)
    os.close(counts)
    code = _watch(child, death=death, disk=disk)
    with os.fdopen(said, errors="replace") as output, os.fdopen(counted, "rb") as log:
        text, marks = output.read(), log.read()
    return End(code, text, marks.count(b"r"), marks.count(b"u"))


def _run(words: list[str], *, run_dir: Path, says: int, counts: int, death: Death | None) -> None:
    """The child: never returns."""
    code = 70
    try:
        os.dup2(says, 1)
        os.dup2(says, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _count_releases(counts)
        if death is not None and death.at == "operation":
            _die_at_operation(int(death.after), SIGNALS[death.means], run_dir=run_dir)
        try:
            app(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:  # before or after the command
        code = 130
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _count_releases(counts: int) -> None:
    def when_there_is_a_gradient(_: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any]:
        closure = arguments[1] if len(arguments) > 1 else options["closure"]

        def marked() -> Any:
            loss = closure()
            os.write(counts, b"r")
            return loss

        return (arguments[0],), {"closure": marked}

    register_optimizer_step_pre_hook(when_there_is_a_gradient)
    register_optimizer_step_post_hook(lambda *_: os.write(counts, b"u") and None)


def _die_at_operation(count: int, number: int, *, run_dir: Path) -> None:
    left = count

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(arguments[0]).startswith(str(run_dir)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)

    sys.addaudithook(hook)


def _watch(child: int, *, death: Death | None, disk: Path | None) -> int:
    deadline = time.monotonic() + SECONDS_TO_FINISH
    if death is not None and death.at == "time" and not _gone_after(child, death.after):
        _strike(child, death.means, disk=disk)
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGABRT)
    os.waitpid(child, 0)
    raise TimeoutError(f"a life went on for more than {SECONDS_TO_FINISH:g} seconds after {death}")


def _gone_after(child: int, seconds: float) -> bool:
    time.sleep(seconds)
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _strike(child: int, means: str, *, disk: Path | None) -> None:
    if means in SIGNALS:
        os.kill(child, SIGNALS[means])
    elif means == "term-kill":
        os.kill(child, signal.SIGTERM)
        if not _gone_after(child, random.uniform(0, 0.05)):
            os.kill(child, signal.SIGKILL)
    elif means == "interrupt-twice":
        os.kill(child, signal.SIGINT)
        if not _gone_after(child, random.uniform(0, 0.02)):
            os.kill(child, signal.SIGINT)
    elif means == "file-limit":
        # No file may grow beyond this any more: the kernel itself cuts a write short, as a full disk does.
        resource.prlimit(child, resource.RLIMIT_FSIZE, (random.randint(0, 20_000),) * 2)
    elif means == "full-disk" and disk is not None:
        fill(disk)


def fill(disk: Path) -> None:
    """Take up all the room that is left on a file system."""
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        while True:
            ballast.write(bytes(256))
