"""A comparison in the terminal: a table for each ranking, or blocks where a table is too wide."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dppipe.cli.printing.wrapping import WIDTH, table, wrapped
from dppipe.report.comparison.cells import Column, ranking_columns

if TYPE_CHECKING:
    from dppipe.report.comparison.ranking import Comparison, Ranking

_GAP = 2
_ALARMING = ("NOT PRIVATE", "NO CLAIM", "NO PROTECTION")


def print_comparison(comparison: Comparison) -> None:
    """Print the rankings of a comparison and the sentences that belong to them."""
    console = Console(highlight=False, soft_wrap=True)
    width = console.width if sys.stdout.isatty() else WIDTH
    left_out: dict[str, None] = {}
    for ranking in comparison.rankings:
        columns = ranking_columns(ranking, comparison)
        columns = _without_equal_names(columns, comparison)
        kept = _fitting(columns, width=width)
        left_out |= dict.fromkeys(column.name for column in columns if column not in kept)
        console.print(ranking.title, style="bold")
        if _width(kept) <= width:
            console.print(_table(kept), width=width)
        else:
            left_out.clear()
            console.print(_blocks(columns, ranking))
        console.print()
    notes = list(comparison.notes)
    if left_out:
        notes.append(f"No room for {', '.join(left_out)}: --json and --html have all.")
    console.print("\n".join(wrapped(note) for note in notes))


def _without_equal_names(columns: Sequence[Column], comparison: Comparison) -> list[Column]:
    """Leave out the name where all settings have the same one, and options tell them apart."""
    names = {name for one in comparison.rankings for s in one.settings for name in s.names}
    several = sum(len(ranking.settings) for ranking in comparison.rankings) > 1
    hidden = len(names) == 1 and several and bool(comparison.options)
    return [column for column in columns if not (hidden and column.name == "name")]


def _fitting(columns: Sequence[Column], *, width: int) -> list[Column]:
    """Return the columns that fit; those that can be spared first go first."""
    kept = list(columns)
    for column in sorted(columns, key=lambda column: -column.spare):
        if _width(kept) > width and column.spare:
            kept.remove(column)
    return kept


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width + _GAP for column in columns) - _GAP


def _table(columns: Sequence[Column]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for column in columns:
        made.add_column(Text(column.name), justify="right" if column.number else "left")
    for cells in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*map(_cell, cells))
    return made


def _cell(text: str) -> Text:
    return Text(text, style="red" if text in _ALARMING else "")


def _blocks(columns: Sequence[Column], ranking: Ranking) -> Text:
    """Lay each setting out as a table of its own."""
    blocks = []
    for number in range(len(ranking.settings)):
        facts = {column.name: column.cells[number].rstrip() for column in columns}
        blocks.append(table({name: text for name, text in facts.items() if text}))
    return Text("\n\n".join(blocks))
