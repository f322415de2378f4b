"""What any attacker can reach, as a compact block of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppipe.cli.printing.wrapping import table
from dppipe.privacy.printing import shown_delta, shown_share
from dppipe.runs.statement.attacks import shown_limits
from dppipe.runs.statement.claims import one_of, units_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.tradeoff.attack_limits import AttackLimits

_CELL = len("0.00 %") + 1
"""The width of a column of shares, which have three digits."""


def attack_blocks(plan: Plan) -> list[str]:
    """Return a heading and a table, to be set apart by blank lines; nothing without a claim."""
    limits = shown_limits(plan)
    if limits is None:
        return []
    heading = "what any attacker can reach at most"
    if not plan.certified:
        heading = "ESTIMATE, not a limit: what an attacker can reach"
    return [heading, table(_facts(plan, limits))]


def _facts(plan: Plan, limits: AttackLimits) -> dict[str, str]:
    """Return the rows of the table: each name and what is said of it."""
    units = units_of(plan.unit)
    alarms = []
    recognised = []
    for limit in limits.membership:
        alarms.append(shown_share(limit.false_positive_rate))
        recognised.append(shown_share(limit.true_positive_rate))
    hits = []
    for hit in limits.reconstruction:
        hits.append(f"{shown_share(hit.probability)} instead of {shown_share(hit.prior)}")
    question = "took part or not"
    if plan.relation == "replace_one":
        question = f"which of two {units}"
    facts = {
        "false alarms": _columns(alarms),
        f"{units} recognised": _columns(recognised),
        question: f"right in {shown_share((1 + limits.advantage) / 2)}; a coin is in 50 %",
        f"a {one_of(plan.unit)} guessed": ", ".join(hits),
    }
    if limits.mu is not None:
        delta = shown_delta(plan.delta or 0.0)
        facts["Gaussian DP"] = f"mu {limits.mu:g}, at every delta from {delta} up"
    return facts


def _columns(cells: Sequence[str]) -> str:
    return "  ".join(cell.rjust(_CELL) for cell in cells)
