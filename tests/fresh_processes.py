"""Commands in processes of their own that needn't import torch again.

A server that has imported it forks one process for each command. What a command does, opens and
leaves behind is its own, as in a terminal; only the seconds of start-up are saved.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PRELOADED = ("torch", "pytorch_lightning", "torchmetrics", "torch.utils.tensorboard")


def run_command(words: Sequence[str], *, folder: Path) -> tuple[int, str]:
    """Run `dppipe` in a folder; return its exit code and all that it has printed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with tempfile.NamedTemporaryFile("r") as printed:
        environment = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
        process = context.Process(
            target=_command, args=(list(words), str(folder), environment, printed.name)
        )
        process.start()
        process.join()
        assert process.exitcode is not None
        return process.exitcode, Path(printed.name).read_text()


def _command(words: list[str], folder: str, environment: dict[str, str], printed: str) -> None:
    """Be the process: its streams are a file, and nothing comes from the server but modules."""
    output = os.open(printed, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["dppipe", *words]
    from dppipe.cli import main

    main()
