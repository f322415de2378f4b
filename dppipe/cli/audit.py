"""`dppipe audit`: a stand-in for tries of `audit_training.py`, to be replaced at the merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins


def audit(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A spec, or a run directory.")],
    one_run: Annotated[bool, typer.Option("--one-run", help="Audit one whole training.")] = False,
    canaries: Annotated[str, typer.Option("--canaries", help="reserved or inputs.")] = "reserved",
    number: Annotated[int | None, typer.Option("--number", help="How many canaries.")] = None,
    runs: Annotated[int | None, typer.Option("--runs", help="Trainings in each world.")] = None,
    on_data: Annotated[bool, typer.Option("--on-data", help="Train on the records.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None,
    overrides: Overrides = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Test a privacy claim by an experiment."""
    from dppipe.cli.audit_training import audit_many_runs, audit_one_run, audit_run_directory

    if runs is not None:
        audit_many_runs(
            target,
            runs=runs,
            overrides=overrides,
            plugins=plugins,
            out=out,
            as_json=as_json,
        )
        return
    if target.is_dir():
        audit_run_directory(target, plugins=plugins, as_json=as_json)
        return
    audit_one_run(
        target,
        overrides=overrides,
        plugins=plugins,
        canaries=canaries,
        number=number,
        out=out,
        on_data=on_data,
        as_json=as_json,
    )
