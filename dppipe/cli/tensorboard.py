"""`dppipe tensorboard`: open the curves of one run, or of several."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from dppipe.errors import UsageError

_EVENTS = "events.out.tfevents.*"
_DASHBOARD = "#custom_scalars&_smoothingWeight=0"
"""The tab of the dashboard, without smoothing: it would draw epsilon lower than it is."""
_MOST_COMPARED = 20
"""For how many runs the lines that take a moment are computed: the newest."""


def tensorboard(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="Run directories, or folders of them."),
    ] = None,
    port: Annotated[int, typer.Option(help="The port to serve on; 0 takes a free one.")] = 6006,
    host: Annotated[str, typer.Option(help="The address to serve on.")] = "localhost",
) -> None:
    """Serve the curves of runs in TensorBoard, until Ctrl-C."""
    named = _named_runs(runs or [Path("runs")])
    _add_lines(list(named.values()))
    from tensorboard.program import TensorBoard, TensorBoardServerException

    board = TensorBoard()
    with _one_folder(named) as folder:
        place = ["--logdir", str(folder), "--host", host, "--port", str(port)]
        try:
            board.configure(argv=[sys.argv[0], *place, "--load_fast=false"])
            address = board.launch()
        except TensorBoardServerException as error:
            raise UsageError(f"--port: expected a free port, got {port}: {error}") from None
        typer.echo(f"{address}{_DASHBOARD}")
        typer.echo("Ctrl-C ends it.")
        _wait()


def _wait() -> None:
    """Wait for Ctrl-C."""
    import threading

    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo("")


def _named_runs(places: list[Path]) -> dict[str, Path]:
    """Return each place that has curves under the name that TensorBoard shows."""
    named: dict[str, Path] = {}
    for place in places:
        found = _runs_in(place)
        if not found:
            raise UsageError(
                f"{place}: expected a run directory with curves, got none. Train one first: "
                "dppipe run SPEC"
            )
        for run in found:
            named[_name(run, taken=named)] = run
    return named


def _runs_in(place: Path) -> list[Path]:
    """Return the run directories at or below a place; sub-runs and other folders go with them."""
    try:
        events = sorted(place.rglob(_EVENTS))
    except OSError:
        return []
    found = {event.parent for event in events}
    plans = {folder for folder in found if (folder / "plan.json").is_file()}
    return sorted(plans) if plans else ([place] if events else [])


def _name(run: Path, *, taken: dict[str, Path]) -> str:
    """Return a name that isn't taken, from the last two parts of a path."""
    whole = run.resolve()
    name = f"{whole.parent.name}/{whole.name}".strip("/")
    number = 2
    chosen = name
    while chosen in taken:
        chosen = f"{name}-{number}"
        number += 1
    return chosen


@contextmanager
def _one_folder(named: dict[str, Path]) -> Iterator[Path]:
    """Yield a folder that holds a link to each run under its name, which TensorBoard shows."""
    with TemporaryDirectory(prefix="dppipe-tensorboard-") as made:
        folder = Path(made)
        for name, run in named.items():
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(run.resolve(), target_is_directory=True)
        yield folder


def _add_lines(runs: list[Path]) -> None:
    """Add the lines that are computed when curves are looked at."""
    from dppipe.runs.showing.cost_lines import write_cost_lines

    for run in sorted(runs)[-_MOST_COMPARED:]:
        write_cost_lines(run)
