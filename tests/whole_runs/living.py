"""Lives of runs in forked processes: they start at once, may be killed, and leave this process as it was."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytorch_lightning  # noqa: F401  loaded once, here, and not in every process
import tensorboard  # noqa: F401
import torch
import torchmetrics  # noqa: F401
from free_ports import free_port
from torch import Tensor
from typer.testing import CliRunner

import dppipe
import dppipe.pipeline.evaluate
import dppipe.pipeline.resume
import dppipe.pipeline.run
from dppipe.cli.app import app
from dppipe.learners.records.loader import PrivateLoader
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.laplace import LaplaceStream
from dppipe.runs.record import RunRecord

PLUGINS = str(Path(dppipe.__file__).parents[1] / "plugins")
Change = Callable[[], None]
"""What a process does to dppipe before its command begins; nobody has to undo it."""


@dataclass(frozen=True)
class Ended:
    """How the processes of one command ended."""

    codes: tuple[int, ...]
    output: str


def command(
    *words: str,
    changes: Sequence[Change] = (),
    ranks: int = 1,
    victim: Change | None = None,
    plugins: bool = True,
) -> Ended:
    """Run a command of dppipe in a process of its own, or in several that train together.

    Args:
        words: The words of the command.
        changes: What each process does first.
        ranks: The number of processes.
        victim: What the last of them does beside.
        plugins: Whether the command may use the plugins of the repository.
    """
    words = (*words, "--plugins", PLUGINS) if plugins else words
    port = free_port() if ranks > 1 else 0
    children = []
    readers = []
    for rank in range(ranks):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            own = [*changes, victim] if victim is not None and rank == ranks - 1 else changes
            _live(words, own, rank=rank, ranks=ranks, port=port, output=writer)
        os.close(writer)
        children.append(pid)
        readers.append(reader)
    texts = []
    for reader in readers:
        with os.fdopen(reader) as file:
            texts.append(file.read())
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    return Ended(tuple(codes), "\n".join(texts))


def _live(
    words: Sequence[str],
    changes: Sequence[Change],
    *,
    rank: int,
    ranks: int,
    port: int,
    output: int,
) -> None:
    """Run the command and end this process, whatever happens."""
    code = 70
    try:
        sys.stderr.flush()
        os.dup2(output, 2)
        if ranks > 1:
            places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in places.items()})
            os.environ.update(
                {"MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
            )
            os.environ["TORCHELASTIC_RUN_ID"] = "lives"
        for change in changes:
            change()
        done = CliRunner().invoke(app, list(words))
        os.write(output, done.output.encode())
        code = done.exit_code
    finally:
        os._exit(code)


def without_chance() -> None:
    """Let draws depend on the step alone, and noise on its scale alone.

    A run then does the same in one life as in several.
    """
    draw = PrivateLoader.draw

    def draw_by_step(self: PrivateLoader, step: int) -> numpy.ndarray:
        plan, _ = self.require_callback()
        self._armed = (plan, Keystream(hashlib.sha256(str(step).encode()).digest()))
        return draw(self, step)

    def add_(self: Any, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        pattern = torch.arange(1, flat.numel() + 1, dtype=torch.float64).sin() / 2
        return flat.add_((std * pattern).reshape(flat.shape).to(flat.dtype)).div_(over)

    PrivateLoader.draw = draw_by_step  # type: ignore[method-assign]
    GaussianStream.add_ = add_  # type: ignore[method-assign]
    LaplaceStream.add_ = add_  # type: ignore[method-assign]


def signal_after(step: int, number: int = signal.SIGTERM) -> Change:
    """Return a change by which the process gets a signal once it has noted a step."""

    def change() -> None:
        from dppipe.lightning.fit import Fit

        note = Fit.note_step

        def then_signal(fit: Fit, updates: int) -> None:
            note(fit, updates)
            if fit.step.taken == step:
                os.kill(os.getpid(), number)

        Fit.note_step = then_signal  # type: ignore[method-assign]

    return change


def kill_before(name: str, *, step: int) -> Change:
    """Return a change by which the process is killed before a method of its record, from a step on."""

    def change() -> None:
        original = getattr(RunRecord, name)

        def dying(record: RunRecord, *args: Any, **options: Any) -> Any:
            if record.ledger.step >= step:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(record, *args, **options)

        setattr(RunRecord, name, dying)

    return change
