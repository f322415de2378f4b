"""Runs inside a run, whose releases one row of the outer ledger has paid for.

A search, for example, charges its whole cost by one row before its first candidate. Each candidate
then has a plan and a ledger of its own under `covered/`. Their rows count nothing, and name the row
that has paid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.errors import DppipeError
from dppipe.planning.step_plan import plan_from_json
from dppipe.privacy.ledger_reading import read_ledger
from dppipe.runs.directory import RunDirectory, write_whole
from dppipe.runs.ledger import Ledger
from dppipe.runs.verification.row_faults import row_faults

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan


def open_covered(run: Path, name: str, plan: Plan) -> Ledger:
    """Start the ledger of a run that a row of the run in this directory pays for."""
    place = run / "covered" / name
    place.mkdir(parents=True)
    write_whole(place / "plan.json", plan.to_json())
    return Ledger.create(place / "ledger.jsonl", plan=plan.to_json())


def covered_faults(run: RunDirectory) -> Iterator[str]:
    """Report rows of covered runs that count themselves, or that no row of this run pays for."""
    paid = _row_hashes(run.ledger)
    for place in _covered_runs(run):
        inner = RunDirectory(place)
        try:
            plan = plan_from_json(inner.plan.read_bytes())
            found = read_ledger(inner.ledger, plan=inner.plan.read_bytes())
        except (DppipeError, OSError, ValueError) as error:
            yield f"{place}: expected the plan and ledger of a covered run, got: {error}"
            continue
        yield from row_faults(found, plan=plan, place=inner.ledger, covered=True)
        for row, charge in enumerate(found.charges, start=1):
            if charge.covered_by not in paid:
                place_of_row = f"{inner.ledger}:{row}: covered_by"
                yield (
                    f"{place_of_row}: expected the hash of a row of {run.ledger}, got "
                    f"{charge.covered_by}."
                )


def _covered_runs(run: RunDirectory) -> list[Path]:
    """Return the covered runs that a run has kept: those of a learner, or a search's winner."""
    found = sorted((run.path / "covered").glob("*"))
    winner = run.path / "tune" / "winner"
    return [*found, winner] if winner.exists() else found


def _row_hashes(ledger: Path) -> set[str]:
    """Return the `hash` of each whole row."""
    found = set()
    for line in ledger.read_bytes().splitlines():
        try:
            found.add(str(json.loads(line)["hash"]))
        except (ValueError, LookupError, TypeError):
            continue  # a torn line has paid for nothing
    return found
