"""Words that several sections of a page share: delta, shares, relations and endings for people."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dppipe.privacy.printing import shown_delta, shown_share
from dppipe.runs.statement.claims import one_of, units_of

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.runs.statement.statement import Statement

_SMALLEST_DECIMAL = 1e-9
_WITHOUT = {
    "zero_out": "that {unit} counted as nothing",
    "add_remove": "that {unit} left out",
    "replace_one": "any other {unit} in its place",
}
_ENDINGS = {
    "completed": "finished as planned",
    "budget_exhausted": "finished: the next step would have exceeded the budget",
    "interrupted": "was interrupted, and can go on",
    "failed": "ended by an error",
}


def one_in(delta: float) -> str:
    """Write a delta as one in so many, never below its value.

    Example:
        >>> from dppipe.runs.page.markup.wording import one_in
        >>> one_in(1e-5)
        '1 in 100,000'
    """
    exactly = Fraction(shown_delta(delta))
    return "0" if exactly <= 0 else f"1 in {int(1 / exactly):,}"


def decimal_delta(delta: float) -> str:
    """Write a delta without an exponent, as far as that can be read."""
    text = shown_delta(delta)
    return text if 0 < delta < _SMALLEST_DECIMAL else f"{Decimal(text):f}"


def in_100(share: float) -> str:
    """Write a share as so many in 100, rounded up."""
    return f"{shown_share(share).removesuffix(' %')} in 100"


def compared_with(plan: Plan) -> str:
    """Return what the data is compared with, as a phrase after "with"."""
    return _WITHOUT[plan.relation or "zero_out"].format(unit=one_of(plan.unit))


def whose_records(plan: Plan) -> str:
    """Return which records are those of one user."""
    named = plan.data.user if plan.data is not None else None
    return f"all records with one value of `{named}`" if named else "all records of that user"


def counted(number: int, what: str) -> str:
    """Return a number of things, such as "1 resume" or "3 resumes"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def number_of_units(plan: Plan, number: float) -> str:
    """Return a number of records or users."""
    named = one_of(plan.unit) if number == 1 else units_of(plan.unit)
    return f"{number:g} {named}"


def how_it_ended(statement: Statement | None, *, starts: int) -> str:
    """Return how a run ended, as a phrase after "the run"."""
    if statement is None:
        ended = "has not ended, or was killed"
    elif statement.stopped_early:
        ended = "was stopped early by a callback"
    else:
        ended = _ENDINGS.get(statement.status, f"ended: {statement.status}")
    return ended if starts < 2 else f"{ended}, after {counted(starts - 1, 'resume')}"
