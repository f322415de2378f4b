"""`dppipe export`: a finished run's model in a format that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.options import Plugins, RunPath


def export(
    run: RunPath,
    file_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="safetensors: the weights alone; onnx: the whole path from raw inputs.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The new file; without it, NAME.FORMAT in this folder."),
    ] = None,
    plugins: Plugins = None,
) -> None:
    """Write a finished run's model for other programs.

    The model card beside it holds the privacy claim of the run. It costs no privacy.
    """
    from dppipe.pipeline.exporting.export import export_run

    for path in export_run(run, file_format=file_format, out=out, plugins=plugins):
        typer.echo(f"wrote {path}")
