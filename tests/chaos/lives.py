"""One life of a run: forked processes that run a `dppipe` command and are stopped at a random instant, or not at all.

The parent has imported everything, so that a life costs a fraction of a second. What a life releases is counted by hooks on
torch's optimizers, which know nothing of dppipe: a mark when a gradient has reached one, another when the update is done. Two
processes meet as those of torchrun do; if one dies, the other is given a while to end by itself before it is ended.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deaths import SIGNALS, Death, die_at_operation, gone_after, strike
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from dppipe.cli.app import app

SECONDS_TO_FINISH = 60.0
PATIENCE = 5.0
"""Seconds for which a process may wait for one that is dead."""


@dataclass(frozen=True)
class End:
    """How a life ended."""

    codes: tuple[int, ...]
    """Each process's exit code, or minus the signal that ended it; the first rank's first."""
    output: str
    released: int
    """How many gradients have reached an optimizer."""
    updated: int
    """How many updates the first rank has done."""
    left_waiting: bool
    """Whether a process that had lost the other didn't end by itself."""

    @property
    def code(self) -> int:
        """The first rank's."""
        return self.codes[0]


def live(
    words: list[str],
    *,
    run_dir: Path,
    ranks: int = 1,
    death: Death | None = None,
    disk: Path | None = None,
) -> End:
    """Run a command in processes of its own until they end or die; `disk` is a small file system that can be filled."""
    # What a life says fits into a pipe's buffer, and a pipe is never a full disk.
    said, says = os.pipe()
    pipes = [os.pipe() for _ in range(ranks)]
    port, children = _free_port(), []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            if ranks > 1:
                _join(rank, ranks, port=port)
            _run(words, rank=rank, run_dir=run_dir, says=says, counts=pipes[rank][1], death=death)
        children.append(child)
    for end in (says, *(counts for _, counts in pipes)):
        os.close(end)
    codes, left_waiting = _watch(children, death=death, disk=disk)
    with os.fdopen(said, errors="replace") as output:
        text = output.read()
    marks = []
    for counted, _ in pipes:
        with os.fdopen(counted, "rb") as log:
            marks.append(log.read())
    return End(
        codes, text, max(mark.count(b"r") for mark in marks), marks[0].count(b"u"), left_waiting
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _join(rank: int, ranks: int, *, port: int) -> None:
    """Say what torchrun says to its processes."""
    group = {
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "GROUP_RANK": 0,
    }
    group |= {"RANK": rank, "LOCAL_RANK": rank, "TORCHELASTIC_RUN_ID": "chaos"}
    os.environ.update({name: str(value) for name, value in group.items()})


def _run(
    words: list[str], *, rank: int, run_dir: Path, says: int, counts: int, death: Death | None
) -> None:
    """The child: never returns."""
    code = 70
    try:
        os.dup2(says, 1)
        os.dup2(says, 2)
        faulthandler.enable()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        planned = (
            death if death is not None and death.at == "operation" and death.strikes(rank) else None
        )
        _count_releases(counts, death=planned if rank else None)
        if planned is not None and not rank:
            die_at_operation(int(planned.after), SIGNALS[planned.means], run_dir=run_dir)
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


def _count_releases(counts: int, *, death: Death | None) -> None:
    """Mark every release and update; a process that writes no files dies at a release instead of at an operation."""
    released = 0

    def when_there_is_a_gradient(
        _: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Any, Any]:
        closure = arguments[1] if len(arguments) > 1 else options["closure"]

        def marked() -> Any:
            nonlocal released
            loss = closure()
            os.write(counts, b"r")
            released += 1
            if death is not None and released == death.after:
                os.kill(os.getpid(), SIGNALS[death.means])
            return loss

        return (arguments[0],), {"closure": marked}

    register_optimizer_step_pre_hook(when_there_is_a_gradient)
    register_optimizer_step_post_hook(lambda *_: os.write(counts, b"u") and None)


def _watch(
    children: list[int], *, death: Death | None, disk: Path | None
) -> tuple[tuple[int, ...], bool]:
    """Strike when it is time, wait for all, and give their codes and whether one was left waiting for another."""
    if death is not None and death.at == "time" and not gone_after(children[0], death.after):
        for rank, child in enumerate(children):
            if death.strikes(rank):
                strike(child, death.means, disk=disk)
    codes: dict[int, int] = {}
    left, helped = SECONDS_TO_FINISH, False
    while len(codes) < len(children):
        before = time.monotonic()
        time.sleep(0.002)
        left -= min(time.monotonic() - before, 0.1)  # a machine that stood still takes nothing off
        for child in [child for child in children if child not in codes]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
                left = min(left, PATIENCE) if codes[child] else left
            elif left < 0 and codes and not helped:
                # As torchrun ends the others: by SIGTERM, and soon after by SIGKILL.
                helped = True
                os.kill(child, signal.SIGTERM)
                gone_after(child, 1.0) or os.kill(child, signal.SIGKILL)
            elif left < -PATIENCE:
                os.kill(child, signal.SIGABRT)  # which shows where it hangs
                codes[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return tuple(codes[child] for child in children), helped
