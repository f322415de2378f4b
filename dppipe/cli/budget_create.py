"""`dppipe budget create`: make a scope by its terms, or by those of a spec that will run in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dppipe.cli.options import AsJson
from dppipe.cli.printing.scopes import status_data, status_text
from dppipe.cli.printing.screen import say
from dppipe.cli.printing.wrapping import wrapped
from dppipe.cli.spec_file import read_spec
from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.privacy.printing import shown_delta

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Scope
    from dppipe.planning.plan import Plan
    from dppipe.privacy.filters.filters import Commitment

Place = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FILE|URL",
        help="The store; else what DPPIPE_STORE names, else .dppipe/budgets.db.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="SCOPE", help="The scope's name.", show_default=False)]

_NO_DELTA = "--delta: expected the delta of all runs together, got none."
_ADDS_DELTAS = ("basic", "advanced")
"""Filters that add up deltas: for the others, the delta of one run is a sensible one for all."""

_HELP = {
    "delta": "The delta of that epsilon. Taken from --like with filter rdp or zcdp.",
    "relation": "zero_out, add_remove or replace_one. Taken from --like, else zero_out.",
    "unit": "Whose privacy is protected: example or user. Taken from --like, else example.",
    "filter": "How costs add up: rdp, zcdp, basic or advanced.",
    "order": "The Renyi order of filter rdp. With --like, the best one for such runs.",
    "like": "A spec that will run in the scope: what isn't given is taken from it.",
}


@dataclass(frozen=True)
class Like:
    """A spec that is to run in a scope, and what the scope takes from it."""

    path: Path
    commitment: Commitment
    scope: str | None
    """The scope that the spec names already."""
    largest_delta: float
    """What every delta must be below: one record's share of all."""
    taken: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str, given: Any) -> Any:
        """Return the spec's relation or unit; refuse an option that says otherwise."""
        own = getattr(self.commitment, name)
        if given is not None and given != own:
            raise UsageError(
                f"--{name}: expected {own}, as in {self.path}, which --like names, got {given!r}. "
                f"The scope would refuse that spec: leave --{name} or --like out."
            )
        self.taken[name] = own
        return own


def create(
    name: Name,
    epsilon: Annotated[float, typer.Option(help="The most that all runs together may cost.")],
    delta: Annotated[float | None, typer.Option(help=_HELP["delta"])] = None,
    relation: Annotated[str | None, typer.Option(help=_HELP["relation"])] = None,
    unit: Annotated[str | None, typer.Option(help=_HELP["unit"])] = None,
    rule: Annotated[str, typer.Option("--filter", help=_HELP["filter"])] = "rdp",
    order: Annotated[float | None, typer.Option(help=_HELP["order"])] = None,
    like: Annotated[Path | None, typer.Option(metavar="SPEC", help=_HELP["like"])] = None,
    store: Place = None,
    as_json: AsJson = False,
) -> None:
    """Make a scope.

    Its terms are fixed for good, because each run is chosen after seeing the last.
    """
    from dppipe.budgets.scopes import Status
    from dppipe.budgets.store import Store

    typical = _read(like) if like is not None else None
    terms = _terms({"delta": delta, "relation": relation, "unit": unit}, typical, rule=rule)
    scope = _make(name, typical, epsilon=epsilon, filter=rule, order=order, **terms)
    opened = Store(store)
    others = get_close_matches(name, opened.scopes(), n=1)
    opened.create(scope)
    status = Status(scope, ())
    taken = typical.taken if typical is not None else {}
    if as_json:
        typer.echo(json.dumps(status_data(status) | {"taken_from_spec": taken}, indent=2))
        return
    say(status_text(status))
    for line in _about(typical, scope) if typical is not None else []:
        typer.echo(wrapped(line))
    if others:
        typer.echo(wrapped(f"note: there is another scope, {others[0]!r}"))


def _read(path: Path) -> Like:
    """Plan a spec, as it would be charged."""
    from dppipe.budgets.commitments import commit
    from dppipe.planning.any_plan import make_any_plan
    from dppipe.planning.privacy_plan import run_parts
    from dppipe.spec.load import placing_problems
    from dppipe.spec.yaml.files import split_files

    files = split_files(path)
    with placing_problems(files):
        spec = read_spec(files)
        plan = make_any_plan(spec)
        try:
            commitment = commit(plan, run_parts(spec))
        except (UsageError, PrivacyRefusal) as error:
            raise type(error)(f"--like: {path} can't be charged to a scope. {error}") from error
    return Like(path, commitment, plan.scope, _one_record(plan))


def _one_record(plan: Plan) -> float:
    """Return 1/records by public numbers; 1 where nothing public says it."""
    from dppipe.planning.step_plan import StepPlan

    if isinstance(plan, StepPlan):
        return plan.sample_rate / plan.expected_batch_size
    return 1 / plan.records if plan.records else 1.0


def _terms(given: Mapping[str, Any], like: Like | None, *, rule: str) -> dict[str, Any]:
    """Return delta, relation and unit: as given, else as the spec has them, else the defaults."""
    delta = given["delta"]
    if like is not None and delta is not None and delta >= like.largest_delta:
        raise PrivacyRefusal(
            f"--delta: expected less than 1/records = {like.largest_delta:.3g}, as {like.path} has "
            f"them, got {delta:g}. At that delta a run may publish a whole record; choose a "
            "smaller one."
        )
    if delta is None:
        if like is None:
            raise UsageError(f"{_NO_DELTA} Give it, or a spec by --like.")
        if rule in _ADDS_DELTAS:
            raise UsageError(
                f"{_NO_DELTA} Filter {rule} adds up the deltas of runs, and one run of {like.path} "
                f"has {shown_delta(like.commitment.delta)}. Give a larger one."
            )
        delta = like.taken["delta"] = like.commitment.delta
    terms = {"delta": delta}
    for name, default in (("relation", "zero_out"), ("unit", "example")):
        terms[name] = like.take(name, given[name]) if like is not None else given[name] or default
    return terms


def _make(name: str, like: Like | None, **terms: Any) -> Scope:
    from pydantic import ValidationError

    from dppipe.budgets.scopes import Scope

    try:
        scope = Scope.make(name, like=like.commitment if like is not None else None, **terms)
    except ValidationError as error:
        faults = [_fault(wrong) for wrong in error.errors(include_url=False)]
        raise UsageError("\n".join(faults)) from error
    if like is not None and terms["order"] is None and "order" in scope.filter:
        like.taken["order"] = scope.filter["order"]
    return scope


def _about(like: Like, scope: Scope) -> list[str]:
    """Say what was taken from a spec, how many such runs fit, and how the spec names the scope."""
    from dppipe.budgets.scopes import counted, percent_used

    taken = ", ".join(f"{name} {_value(value)}" for name, value in like.taken.items())
    share = scope.share(scope.rule.cost(like.commitment))
    fits = "not one run like it fits"
    if share <= 1:
        fits = f"room for {counted(math.floor(1 / share))} like it"
    said = [f"taken from {like.path}: {taken}", f"{fits}: each takes {percent_used(share)}"]
    if like.scope is None:
        said.append(f"to charge its runs: add `scope: {scope.name}` to the budget in {like.path}")
    elif like.scope != scope.name:
        said.append(f"warning: {like.path} names another scope, {like.scope!r}")
    return said


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fault(wrong: Any) -> str:
    from dppipe.budgets.scopes import Scope
    from dppipe.spec.messages.describe import describe_field

    name = str(wrong["loc"][0])
    if name == "name":
        allowed = "at most 100 letters, digits, `.`, `_` and `-`"
        return f"SCOPE: expected {allowed}, got {wrong['input']!r}."
    fields = Scope.model_fields
    expected = wrong["msg"].replace("Input should be", "a value")
    if name in fields:
        expected = describe_field(fields[name])
    return f"--{name}: expected {expected}, got {wrong['input']!r}."
