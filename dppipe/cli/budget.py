"""`dppipe budget`: budgets that many runs share: make one, look at it, settle crashed runs, take it along."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson
from dppipe.cli.text import short_path, table, wrapped
from dppipe.privacy.claims import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Status
    from dppipe.privacy.filters import Commitment

app = typer.Typer(help="Budgets that many runs share.", no_args_is_help=True)

Place = Annotated[
    str | None,
    typer.Option("--store", metavar="FILE|URL", help="The store; else what DPPIPE_STORE names, else .dppipe/budgets.db."),
]
Name = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope's name.", show_default=False)]


@app.command("list")
def list_scopes(store: Place = None, as_json: AsJson = False) -> None:
    """List all scopes and how much of each is used."""
    from dppipe.budgets.store import Store

    opened = Store(store)
    found = [opened.status(name) for name in opened.scopes()]
    if as_json:
        typer.echo(json.dumps([status_data(status) for status in found], indent=2))
    elif not found:
        typer.echo(f"no scopes in {opened.place}")
    for status in [] if as_json else found:
        terms = status.scope
        typer.echo(
            f"{terms.name}: {_used(status)} of epsilon {terms.epsilon:g} at delta {shown_delta(terms.delta)}, "
            f"{len(status.runs)} runs"
        )


@app.command()
def create(
    name: Name,
    epsilon: Annotated[float, typer.Option(help="The most that all runs together may cost.")],
    delta: Annotated[float, typer.Option(help="The delta of that epsilon.")],
    relation: Annotated[str, typer.Option(help="zero_out, add_remove or replace_one.")] = "zero_out",
    unit: Annotated[str, typer.Option(help="Whose privacy is protected.")] = "example",
    rule: Annotated[str, typer.Option("--filter", help="How costs add up: rdp, zcdp, basic or advanced.")] = "rdp",
    order: Annotated[float | None, typer.Option(help="The Renyi order of filter rdp.")] = None,
    like: Annotated[Path | None, typer.Option(metavar="SPEC", help="A typical run, for which the order is chosen.")] = None,
    store: Place = None,
    as_json: AsJson = False,
) -> None:
    """Make a scope. Its terms are fixed for good, because each run is chosen after seeing the last."""
    from pydantic import ValidationError

    from dppipe.budgets.scopes import Scope, Status
    from dppipe.budgets.store import Store
    from dppipe.errors import UsageError

    typical = _typical(like) if like is not None else None
    fixed: dict[str, Any] = {"relation": relation, "unit": unit}
    try:
        scope = Scope.make(name, epsilon=epsilon, delta=delta, filter=rule, order=order, like=typical, **fixed)
    except ValidationError as error:
        raise UsageError("\n".join(_fault(wrong) for wrong in error.errors(include_url=False))) from error
    Store(store).create(scope)
    status = Status(scope, ())
    typer.echo(json.dumps(status_data(status), indent=2) if as_json else status_text(status))


@app.command()
def show(name: Name, store: Place = None, as_json: AsJson = False) -> None:
    """Show a scope's terms, its runs, and what is left."""
    from dppipe.budgets.reconcile import joined_epsilon
    from dppipe.budgets.store import Store

    opened = Store(store)
    status, joined = opened.status(name), joined_epsilon(opened, name)
    if as_json:
        typer.echo(json.dumps(status_data(status) | {"epsilon_had_all_runs_been_planned_together": joined}, indent=2))
        return
    typer.echo(status_text(status))
    if joined is not None:
        typer.echo(wrapped(f"had all runs been planned together, they would cost epsilon {shown(joined)} (PLD; an ESTIMATE)"))


@app.command()
def reconcile(
    name: Name,
    moved: Annotated[list[str] | None, typer.Option(metavar="RUN=DIR", help="Where a run's directory stands now.")] = None,
    store: Place = None,
    as_json: AsJson = False,
) -> None:
    """Settle runs that have crashed, from their ledgers. What can't be read stays reserved."""
    from dppipe.budgets.reconcile import reconcile as settle_crashed
    from dppipe.budgets.store import Store
    from dppipe.errors import UsageError

    places = dict(pair.rpartition("=")[::2] for pair in moved or [])
    if "" in places:
        raise UsageError("--moved: expected RUN=DIR, got no `=`.")
    found = settle_crashed(Store(store), name, moved={run: Path(place) for run, place in places.items()})
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for one in found:
        typer.echo(f"{one.entry.run_id}: {one.outcome}{': ' if one.why else ''}{one.why}")
    if not found:
        typer.echo("no reservation is open")


@app.command()
def export(name: Annotated[str | None, typer.Argument(metavar="SCOPE", show_default=False)] = None, store: Place = None) -> None:
    """Print one scope or all of them as JSON. Every entry that was ever made is there."""
    from dppipe.budgets.store import Store

    opened = Store(store)
    names = opened.scopes() if name is None else [name]
    scopes = [status_data(opened.status(one)) | {"history": [asdict(e) for e in opened.history(one)]} for one in names]
    typer.echo(json.dumps({"store": opened.place, "scopes": scopes}, indent=2))


def status_data(status: Status) -> dict[str, Any]:
    """Give a scope and its use as plain data."""
    use = {"capacity": status.scope.capacity, "used": status.used, "room": status.room}
    return (
        status.scope.model_dump(mode="json")
        | {name: asdict(amount) for name, amount in use.items()}
        | {"share_used": status.share, "runs": [asdict(entry) for entry in status.runs]}
    )


def status_text(status: Status) -> str:
    """Lay a scope out for a person."""
    terms = status.scope
    options = ", ".join(f"{name} {value:g}" for name, value in terms.filter.items() if name != "kind")
    facts = {
        "guarantee": f"epsilon {terms.epsilon:g} at delta {shown_delta(terms.delta)} for all runs together, "
        "however each was chosen",
        "relation": f"{terms.relation}, unit: one {terms.unit}",
        "filter": f"{terms.filter['kind']}{', ' if options else ''}{options}",
        "used": _used(status),
    }
    runs = [
        f"  {entry.run_id}  {entry.state}  {_part(status, entry.cost.amount)}\n      {short_path(entry.run_dir)}"
        for entry in status.runs
    ]
    return "\n".join([terms.name, table(facts), *runs])


def _fault(wrong: Any) -> str:
    from dppipe.budgets.scopes import Scope
    from dppipe.spec.describe import describe_field

    name = str(wrong["loc"][0])
    if name == "name":
        return f"SCOPE: expected at most 100 letters, digits, `.`, `_` and `-`, got {wrong['input']!r}."
    fields = Scope.model_fields
    expected = describe_field(fields[name]) if name in fields else wrong["msg"].replace("Input should be", "a value")
    return f"--{name}: expected {expected}, got {wrong['input']!r}."


def _used(status: Status) -> str:
    return f"{status.share:.1%} used"


def _part(status: Status, amount: float) -> str:
    return f"{amount / status.scope.capacity.amount:.1%}"


def _typical(path: Path) -> Commitment:
    from dppipe.budgets.binding import commit
    from dppipe.planning.privacy_plan import make_plan, parts_of
    from dppipe.spec.load import load_spec

    spec = load_spec(path)
    return commit(make_plan(spec), parts_of(spec))
