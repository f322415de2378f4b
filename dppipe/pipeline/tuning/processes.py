"""The other processes of a search: they take part in one run, and know of no other.

The first process alone draws, charges, scores and writes. It starts the others anew for each run,
tells each the run's spec and plan through a pipe, and ends them with the run: where one is lost, no
later run waits for it. Read next: `follower.py`, what the others do.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.learners.ranks import LostProcess, leave_group

if TYPE_CHECKING:
    from pathlib import Path

    from dppipe.pipeline.paid import Paid
    from dppipe.planning.plan import Plan
    from dppipe.runs.directory import RunDirectory
    from dppipe.spec.spec import Spec

READY = b"ready\n"
_LAUNCHED = ("LOCAL_RANK", "RANK", "SLURM_PROCID", "TORCHELASTIC_RUN_ID")
"""What a launcher sets in the environment of the processes that it has started."""
_SECONDS = 30.0
"""How long a process may take to end by itself once its run is over."""


def refuse_other_machines(spec: Spec) -> None:
    """Refuse processes that the search can't start by itself."""
    if spec.performance.num_nodes > 1:
        raise UsageError(
            "performance.num_nodes: expected 1, as a search starts its processes anew for each "
            f"run and can't do so on other machines, got {spec.performance.num_nodes}. Set it to 1."
        )
    found = [name for name in _LAUNCHED if name in os.environ]
    if spec.performance.devices > 1 and found:
        raise UsageError(
            "performance.devices: expected one process that starts the others for each run of the "
            f"search, got one that a launcher has started ({found[0]} is set). Start the command "
            "without torchrun or srun."
        )


@contextmanager
def other_processes(
    spec: Spec, plan: Plan, paid: Paid, *, resume: RunDirectory | None, plugins: Path | None
) -> Iterator[None]:
    """Start the other processes of one run, and end them with it.

    Args:
        spec: The spec of the run.
        plan: Its plan.
        paid: What it shares with other runs of its search.
        resume: The run to go on with, in place of a new one.
        plugins: The folder of plugin files.
    """
    world = spec.performance.devices
    if world == 1:
        yield
        return
    before = dict(os.environ)
    os.environ |= _places(world)
    told = {
        "spec": spec.to_yaml(),
        "plan": plan.to_json().decode(),
        "row": paid.row,
        "run": str(paid.run.path),
        "resume": None if resume is None else str(resume.path),
        "plugins": None if plugins is None else str(plugins),
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(1, world):
            started.append(_start(rank))
        for process in started:
            _tell(process, told)
        yield
    finally:
        leave_group()
        for process in started:
            _end(process)
        os.environ.clear()
        os.environ |= before


def _places(world: int) -> dict[str, str]:
    """Return the environment by which a Trainer knows that its processes were started."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NODE_RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(world),
    }


def _start(rank: int) -> subprocess.Popen[bytes]:
    """Start a process that isn't heard of, and that Ctrl-C in a terminal doesn't reach."""
    return subprocess.Popen(
        [sys.executable, "-m", "dppipe.pipeline.tuning.follower"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"LOCAL_RANK": str(rank)},
        start_new_session=True,
    )


def _tell(process: subprocess.Popen[bytes], told: dict[str, str | None]) -> None:
    """Tell a process what to run, and wait until it is ready."""
    if process.stdin is None or process.stdout is None:
        raise LostProcess("performance.devices: expected pipes to another process, got none.")
    try:
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
    except OSError:
        answer = b""
    if answer != READY:
        raise LostProcess(
            "performance.devices: expected every process to start, lost one. What was charged "
            "stays charged: go on with dppipe resume."
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has lost its group, or end it."""
    try:
        process.wait(_SECONDS if process.poll() is None and sys.exc_info()[0] is None else 0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
