"""`dppipe ledger verify`: check a run's ledger and compute its epsilon anew, from its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson
from dppipe.cli.printing.second_opinion import CONTRADICTION, opinion_text
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.privacy.second_opinion import SecondOpinion
    from dppipe.runs.verify import Verification

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
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask dp_accounting's own PLD too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every byte of a run's ledger. Epsilon is computed anew, from its rows alone.

    It ends with exit code 4 where the ledger isn't whole, or the second opinion lies above ours.
    """
    from dppipe.runs.verify import verify_ledger

    found = verify_ledger(run, accountant=accountant, delta=delta)
    opinion = _opinion(run, found) if second_opinion else None
    if as_json:
        typer.echo(json.dumps(_data(found, opinion), indent=2))
    else:
        _print(found, opinion)
    if not found.intact or _contradicted(found, opinion):
        raise typer.Exit(CONTRADICTION)


def _opinion(run: Path, found: Verification) -> SecondOpinion:
    from dppipe.runs.verification.second_opinion import ledger_opinion

    return ledger_opinion(run, found)


def _contradicted(found: Verification, opinion: SecondOpinion | None) -> bool:
    if opinion is None or found.epsilon is None or not found.certified:
        return False
    return opinion.contradicts(found.epsilon)


def _data(found: Verification, opinion: SecondOpinion | None) -> dict[str, object]:
    data = found.to_data()
    if opinion is not None:
        data["second_opinion"] = opinion.to_data(ours=found.epsilon, certified=found.certified)
    return data


def _print(found: Verification, opinion: SecondOpinion | None) -> None:
    for fault in found.faults:
        typer.echo(fault, err=True)
    if found.epsilon is not None and found.delta is not None:
        typer.echo(_cost(found, epsilon=found.epsilon, delta=found.delta))
    if found.claimed is not None:
        typer.echo(f"the last row states epsilon {shown(found.claimed)}")
    if found.odometer is not None:
        typer.echo(
            f"odometer: epsilon {shown(found.odometer)}, "
            "for a stop here that followed what was released"
        )
    if opinion is not None and found.epsilon is not None:
        typer.echo(opinion_text(opinion, ours=found.epsilon, certified=found.certified))
    typer.echo("the ledger is whole" if found.intact else "the ledger is NOT whole")


def _cost(found: Verification, *, epsilon: float, delta: float) -> str:
    kind = ""
    if found.accountant:
        kind = f" by {found.accountant}" + ("" if found.certified else ", an ESTIMATE")
    earlier = ""
    if found.earlier:
        earlier = f", and {found.earlier} of the runs whose weights it started from"
    charges = f"{found.charged} charges in {found.rows} rows{earlier}"
    return f"epsilon {shown(epsilon)} at delta {shown_delta(delta)}{kind}: {charges}"
