"""What happened to a run, in order: starts, releases, crashes, resumes and the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dppipe.runs.page.markup.elements import joined, paragraph, prose, section
from dppipe.runs.page.markup.wording import counted, how_it_ended
from dppipe.runs.page.step_counts import crashed_after, listed, step_counts

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts

_KILLED = "killed"
_NO_TIMES = "The ledger holds no clock times: rows say in which order things happened."

Event = tuple[float, str, str]
"""After which row it happened, when (an empty text where that isn't known), and what."""


def timeline(facts: PageFacts) -> Markup:
    """Return what happened, in the order of the ledger's rows."""
    items = []
    for _, when, what in sorted(_events(facts), key=lambda event: event[0]):
        items.append(_item(when, what))
    notes = [paragraph(_NO_TIMES, style="small")] if facts.plan.private else []
    listed = Markup('<ol class="timeline">\n{}</ol>\n').format(joined(items))
    return section("What happened", listed, *notes, ident="timeline")


def _item(when: str, what: str) -> Markup:
    moment = Markup("<span>{}</span> ").format(when) if when else Markup("")
    return Markup("<li>{}{}</li>\n").format(moment, prose(what))


def _events(facts: PageFacts) -> Iterator[Event]:
    rows = 0 if facts.ledger is None else facts.ledger.rows
    yield -1, _minute(facts.begun), "The run began, and its plan was written."
    for entry in facts.resumed:
        yield _place(entry), _minute(entry.get("at")), _resumed(entry)
    unknown = facts.starts - 1 - len(facts.resumed)
    if unknown > 0:
        times = "once" if unknown == 1 else f"{unknown} times"
        yield rows + 0.6, "", f"The run was resumed {times}; when wasn't noted."
    yield from _crashes(facts)
    yield from _ending(facts, rows)


def _crashes(facts: PageFacts) -> Iterator[Event]:
    """Yield what the ledger shows of crashes: rows that were cut off, and steps without rows."""
    for row in facts.torn_rows:
        yield (
            row - 0.5,
            "",
            f"A crash cut off row {row} while it was written. It was charged all the same.",
        )
    ledger = facts.ledger
    if ledger is None:
        return
    if ledger.torn:
        yield ledger.rows + 0.5, "", "A crash cut off the last row. It counts as a charge."
    steps = [(row, charge.step) for row, charge in enumerate(ledger.charges, 1) if charge.step]
    for (row, before), (_, after) in pairwise(steps):
        if after > before + 1:
            yield row + 0.65, "", _lost(before + 1, after - 1)


def _lost(first: int, last: int) -> str:
    steps = listed(range(first, last + 1))
    return f"{steps} never ran: the rest of a block that had been paid for as a whole."


def _ending(facts: PageFacts, rows: int) -> Iterator[Event]:
    statement = facts.statement
    if facts.plan.private:
        yield rows + 0.7, "", _added_up(facts, rows)
    if statement is None:
        yield rows + 1, "", "No end was recorded: the run is under way, or was killed."
        return
    # How often the run went on stands in the lines above.
    ended = how_it_ended(statement, starts=1)
    yield rows + 1, _minute(statement.ended), f"The run {ended}."
    if statement.test_looks:
        times = counted(statement.test_looks, "time")
        yield rows + 2, "", f"The test records were scored {times}."


def _added_up(facts: PageFacts, rows: int) -> str:
    """Say what was paid for, and what became of it."""
    counts = step_counts(facts)
    if counts is not None and counts.started:
        return " ".join(counts.sentences())
    charged = 0 if facts.ledger is None else sum(row.count for row in facts.ledger.charges)
    return f"The ledger has {counted(rows, 'row')}, with {counted(charged, 'payment')}."


def _place(entry: Mapping[str, Any]) -> float:
    return (crashed_after(entry) or 0) + 0.6


def _resumed(entry: Mapping[str, Any]) -> str:
    after = entry.get("after")
    ended = {
        _KILLED: "had been killed",
        "interrupted": "had been interrupted",
        "failed": "had failed",
    }.get(str(after), "had stopped")
    said = f"The run {ended} and was resumed, after row {entry.get('rows')} of the ledger."
    return f"{said} The row after it was cut off." if entry.get("torn") else said


def _minute(moment: object) -> str:
    if not isinstance(moment, str):
        return ""
    try:
        return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return ""
