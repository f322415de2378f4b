"""Scopes laid out for a person, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dppipe.cli.printing.wrapping import short_path, table
from dppipe.privacy.printing import shown_delta

if TYPE_CHECKING:
    from dppipe.budgets.scopes import Status


def status_data(status: Status) -> dict[str, Any]:
    """Return a scope and its use as plain data."""
    use = {"capacity": status.scope.capacity, "used": status.used, "room": status.room}
    return (
        status.scope.model_dump(mode="json")
        | {name: asdict(amount) for name, amount in use.items()}
        | {
            "share_used": status.share,
            "epsilon_spent": status.epsilon_spent,
            "runs": [asdict(entry) for entry in status.runs],
        }
    )


def status_line(status: Status) -> str:
    """Return a scope's name and use in one line."""
    from dppipe.budgets.outlook import scope_lines

    lines = scope_lines(status)
    return f"{lines['shared budget']}; spent: {lines['spent']}"


def status_text(status: Status) -> str:
    """Lay a scope out for a person."""
    from dppipe.budgets.outlook import scope_lines
    from dppipe.budgets.scopes import percent_used

    terms = status.scope
    options = [f", {name} {value:g}" for name, value in terms.filter.items() if name != "kind"]
    claim = f"epsilon {terms.epsilon:g} at delta {shown_delta(terms.delta)}"
    facts = {
        "guarantee": f"{claim} for all runs together, however each was chosen",
        "relation": f"{terms.relation}, unit: one {terms.unit}",
        "filter": f"{terms.filter['kind']}{''.join(options)}",
        "spent": scope_lines(status)["spent"],
    }
    runs = []
    for entry in status.runs:
        part = percent_used(terms.share(entry.cost))
        runs.append(f"  {entry.run_id}  {entry.state}  {part}\n      {short_path(entry.run_dir)}")
    return "\n".join([terms.name, table(facts), *runs])
