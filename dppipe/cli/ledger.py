"""`dppipe ledger verify`: check a run's ledger and compute its epsilon anew, from its rows alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look into a run's ledger.", no_args_is_help=True)


@app.callback()
def ledger() -> None:
    """Look into a run's ledger."""


@app.command()
def verify(
    run: Annotated[Path, typer.Argument(help="The run directory.", show_default=False)],
    accountant: Annotated[
        str | None, typer.Option(help="Compute epsilon with this one instead of the run's own.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="State epsilon at this delta instead of the run's own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every byte of a run's ledger. Epsilon is computed anew, from its rows alone."""
    from dppipe.privacy.printing import shown, shown_delta
    from dppipe.runs.verify import verify_ledger

    found = verify_ledger(run, accountant=accountant, delta=delta)
    if as_json:
        typer.echo(json.dumps(found.to_data(), indent=2))
    else:
        for fault in found.faults:
            typer.echo(fault, err=True)
        if found.epsilon is not None and found.delta is not None:
            kind = (
                f" by {found.accountant}{'' if found.certified else ', an ESTIMATE'}"
                if found.accountant
                else ""
            )
            typer.echo(
                f"epsilon {shown(found.epsilon)} at delta {shown_delta(found.delta)}{kind}: "
                f"{found.charged} charges in {found.rows} rows"
                f"{f', and {found.earlier} of the runs whose weights it started from' if found.earlier else ''}"
            )
        if found.claimed is not None:
            typer.echo(f"the last row states epsilon {shown(found.claimed)}")
        if found.odometer is not None:
            typer.echo(
                f"odometer: epsilon {shown(found.odometer)}, for a stop here that followed what was released"
            )
        typer.echo("the ledger is whole" if found.intact else "the ledger is NOT whole")
    if not found.intact:
        raise typer.Exit(1)
