"""Releases that were charged, and whose value is lost: a run that goes on can't repeat them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.ledger_reading import LedgerCorrupt
from dppipe.runs.released_files import count_released

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.directory import RunDirectory
    from dppipe.runs.ledger import Ledger


def refuse_lost_releases(run: RunDirectory, ledger: Ledger, plan: Plan) -> None:
    """Refuse to go on where a release was charged and its value is lost, or the other way round.

    This is about releases that aren't steps; those of a run with steps come first.

    Guarantee: a value that is read from disk has its row.
    """
    if not plan.private:
        return
    charged = min(ledger.rows + bool(ledger.torn), len(plan.releases))
    released = count_released(run, plan)
    if released > ledger.rows:
        raise LedgerCorrupt(
            f"{run.ledger}: expected a row for each of {released} released values, got "
            f"{ledger.rows}. Last rows were taken out: they can't be trusted."
        )
    if released < charged:
        lost = plan.releases[released].what
        raise PrivacyRefusal(
            f"{run.ledger}:{released + 1}: the release {lost!r} was charged, and its value "
            "was lost in an interruption. The plan holds no second one: what was charged stays "
            "spent. Start a new run."
        )
