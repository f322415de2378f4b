"""`dppipe tensorboard`: open the curves of one run, or of all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dppipe.errors import UsageError


def tensorboard(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, or a folder of them.")
    ] = Path("runs"),
    port: Annotated[int, typer.Option(help="The port to serve on; 0 takes a free one.")] = 6006,
    host: Annotated[str, typer.Option(help="The address to serve on.")] = "localhost",
) -> None:
    """Serve the curves of a run in TensorBoard, until Ctrl-C."""
    try:
        found = any(run.rglob("events.out.tfevents.*"))
    except OSError:
        found = False
    if not found:
        raise UsageError(
            f"{run}: expected a run directory with curves, got none. Train one first: "
            "dppipe run SPEC"
        )
    from tensorboard.program import TensorBoard, TensorBoardServerException

    board = TensorBoard()
    board.configure(
        argv=[
            sys.argv[0],
            "--logdir",
            str(run),
            "--host",
            host,
            "--port",
            str(port),
            "--load_fast=false",
        ]
    )
    try:
        board.main()
    except TensorBoardServerException as error:
        raise UsageError(f"--port: expected a free port, got {port}: {error}") from None
