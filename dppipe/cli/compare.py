"""`dppipe compare`: several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson
from dppipe.cli.printing.wrapping import WIDTH, table
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.report.compare import Comparison, Spread

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...", help="Run directories, or folders of them.", show_default=False
    ),
]


def compare(runs: Runs, as_json: AsJson = False) -> None:
    """Show how runs ended, what they cost and what they reached.

    Runs of one name stand together.
    """
    from dppipe.report.compare import compare_runs, find_runs

    compared = compare_runs(find_runs(runs))
    typer.echo(
        json.dumps([one.to_data() for one in compared], indent=2)
        if as_json
        else comparison_text(compared)
    )


def comparison_text(compared: Sequence[Comparison]) -> str:
    """Lay out one line for each name, or one block where lines would be too long; with several runs
    a metric is its mean and standard deviation.

    How runs ended and their delta are columns only where they differ; else they are said once,
    below.
    """
    rows = [_row(one) for one in compared]
    shared = {
        name: text for name in ("ended", "delta") if (text := _shared([row[name] for row in rows]))
    }
    names = [
        name for name in dict.fromkeys(name for row in rows for name in row) if name not in shared
    ]
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    laid_out = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    if max(map(len, laid_out)) > WIDTH:
        laid_out = [
            "\n\n".join(table({name: row[name] for name in names if row.get(name)}) for row in rows)
        ]
    said_once = (
        ["", f"all: {', '.join(f'{name} {text}' for name, text in shared.items())}"]
        if shared
        else []
    )
    return "\n".join([*laid_out, *said_once])


def _row(one: Comparison) -> dict[str, str]:
    """Return the cells of one name by their columns."""
    ended = ", ".join(
        status.replace("_", " ") if count == one.runs else f"{count} {status.replace('_', ' ')}"
        for status, count in one.statuses.items()
    )
    delta = shown_delta(one.delta) if one.delta is not None else ""
    scores = {name: _score(spread) for name, spread in one.metrics.items()}
    return {
        "name": one.name,
        "runs": str(one.runs),
        "ended": ended,
        "epsilon": _epsilon(one),
        "delta": delta,
        **scores,
    }


def _shared(cells: Sequence[str]) -> str:
    """Return the one text of several cells; an empty text where they differ.

    Empty cells, of runs without privacy, are left out.
    """
    found = {cell for cell in cells if cell}
    return found.pop() if len(cells) > 1 and len(found) == 1 else ""


def _epsilon(one: Comparison) -> str:
    if one.epsilon is None and one.private:
        return "NO CLAIM" if "failed" in one.statuses else "unfinished"
    if one.epsilon is None:
        return "NOT PRIVATE"
    low, high = shown(one.epsilon.least), shown(one.epsilon.most)
    return high if low == high else f"{low} to {high}"


def _score(spread: Spread) -> str:
    return (
        f"{spread.mean:.4f}"
        if spread.deviation is None
        else f"{spread.mean:.4f} +- {spread.deviation:.4f}"
    )
