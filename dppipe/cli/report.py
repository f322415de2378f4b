"""`dppipe report`: write the page of a run again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.options import AsJson, RunPath
from dppipe.cli.printing.wrapping import fit_terminal, short_path

_NOT_PRIVATE = (
    "The baseline makes no claim: its metrics follow from records without noise. They are on "
    "the page under nonprivate/ alone."
)


def report(
    run: RunPath,
    nonprivate: Annotated[
        bool,
        typer.Option(
            "--nonprivate",
            help="Write nonprivate/report.html, with the numbers that no guarantee covers.",
        ),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Show another run's metrics beside this one's.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the page of a run, report.html, again.

    It is one file that can be mailed, made from the run directory's files alone.
    """
    from dppipe.runs.directory import RunDirectory
    from dppipe.runs.page.writing import open_baseline, write_report

    opened = RunDirectory.open(run)
    beside = None
    if baseline is not None:
        beside, only_private = open_baseline(baseline, run=opened)
        if only_private and not nonprivate:
            typer.echo(fit_terminal(_NOT_PRIVATE, stream=sys.stderr), err=True)
            nonprivate = True
    written = write_report(opened, nonprivate=nonprivate, baseline=beside)
    if as_json:
        typer.echo(json.dumps({"report": str(written), "nonprivate": nonprivate}))
    else:
        typer.echo(short_path(str(written)))
