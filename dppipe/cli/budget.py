"""`dppipe budget`: budgets that many runs share: make one, look at it, settle crashed runs, take it
along.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.budget_create import Name, Place, create
from dppipe.cli.options import AsJson
from dppipe.cli.printing.scopes import status_data, status_line, status_text
from dppipe.cli.printing.screen import say
from dppipe.cli.printing.wrapping import wrapped
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from dppipe.budgets.store import Store

app = typer.Typer(help="Budgets that many runs share.", no_args_is_help=True)


@app.command("list")
def list_scopes(store: Place = None, as_json: AsJson = False) -> None:
    """List all scopes and how much of each is used."""
    from dppipe.budgets.places import chosen_place
    from dppipe.budgets.store import Store
    from dppipe.errors import NoStore

    try:
        opened = Store(store, make=False)
        found = [opened.status(name) for name in opened.scopes()]
        place = opened.place
    except NoStore:
        found = []
        place = chosen_place(store)
    if as_json:
        typer.echo(json.dumps([status_data(status) for status in found], indent=2))
        return
    if not found:
        typer.echo(f"no scopes in {place}")
    for status in found:
        typer.echo(wrapped(status_line(status)))


app.command()(create)


@app.command()
def show(name: Name, store: Place = None, as_json: AsJson = False) -> None:
    """Show a scope's terms, its runs, and what is left."""
    from dppipe.budgets.reconcile import joined_epsilon

    opened = _open(store)
    status = opened.status(name)
    joined = joined_epsilon(opened, name)
    if as_json:
        data = status_data(status) | {"epsilon_had_all_runs_been_planned_together": joined}
        typer.echo(json.dumps(data, indent=2))
        return
    say(status_text(status))
    if joined is not None:
        typer.echo(
            wrapped(
                "had all runs been planned together, they would cost epsilon "
                f"{shown(joined)} (PLD; an ESTIMATE)"
            )
        )


@app.command()
def delete(name: Name, store: Place = None, as_json: AsJson = False) -> None:
    """Delete a scope that no run has used. One with runs is refused."""
    opened = _open(store)
    opened.delete(name)
    if as_json:
        typer.echo(json.dumps({"deleted": name, "store": opened.place}, indent=2))
    else:
        typer.echo(f"deleted {name} from {opened.place}")


@app.command()
def reconcile(
    name: Name,
    moved: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN=DIR", help="Where a run's directory is now."),
    ] = None,
    store: Place = None,
    as_json: AsJson = False,
) -> None:
    """Settle runs that have crashed, from their ledgers. What can't be read stays reserved."""
    from dppipe.budgets.reconcile import reconcile as settle_crashed
    from dppipe.errors import UsageError

    moved_to = {}
    for pair in moved or []:
        run, _, place = pair.rpartition("=")
        if not run:
            raise UsageError("--moved: expected RUN=DIR, got no `=`.")
        moved_to[run] = Path(place)
    found = settle_crashed(_open(store), name, moved=moved_to)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        typer.echo(f"{one.entry.run_id}: {one.outcome}{': ' if one.why else ''}{one.why}")
    if not found:
        typer.echo("no reservation is open")


@app.command()
def export(
    name: Annotated[str | None, typer.Argument(metavar="SCOPE", show_default=False)] = None,
    store: Place = None,
) -> None:
    """Print one scope or all of them as JSON. Every entry that was ever made is there."""
    opened = _open(store)
    names = opened.scopes() if name is None else [name]
    scopes = []
    for one in names:
        history = [asdict(entry) for entry in opened.history(one)]
        scopes.append(status_data(opened.status(one)) | {"history": history})
    typer.echo(json.dumps({"store": opened.place, "scopes": scopes}, indent=2))


def _open(place: str | None) -> Store:
    """Open a store that exists: a command that only looks makes none."""
    from dppipe.budgets.store import Store

    return Store(place, make=False)
