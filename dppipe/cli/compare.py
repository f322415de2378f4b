"""`dppipe compare`: several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson
from dppipe.cli.printing.wrapping import WIDTH, table
from dppipe.privacy.printing import shown, shown_delta, shown_share

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
    if as_json:
        typer.echo(json.dumps([one.to_data() for one in compared], indent=2))
    else:
        typer.echo(comparison_text(compared))


def comparison_text(compared: Sequence[Comparison]) -> str:
    """Lay out one line for each name, or one block where lines would be too long; with several runs
    a metric is its mean and standard deviation.

    How runs ended and their delta are columns only where they differ; else they are said once,
    below.
    """
    rows = [_row(one) for one in compared]
    shared = {}
    for name in ("ended", "delta"):
        text = _shared([row[name] for row in rows])
        if text:
            shared[name] = text
    names = _columns(rows, left_out=shared)
    lines = _lines(rows, names)
    if max(map(len, lines)) > WIDTH:
        lines = [_blocks(rows, names)]
    if shared:
        said_once = ", ".join(f"{name} {text}" for name, text in shared.items())
        lines += ["", f"all: {said_once}"]
    return "\n".join(lines)


def _columns(rows: Sequence[Mapping[str, str]], *, left_out: Mapping[str, str]) -> list[str]:
    """Return the names of all cells but those left out, in the order of their first row."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    return [name for name in names if name not in left_out]


def _lines(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[str]:
    """Lay rows out as lines of equal columns, under a heading."""
    columns = []
    for name in names:
        cells = [name]
        for row in rows:
            cells.append(row.get(name, ""))
        width = max(map(len, cells))
        columns.append([cell.ljust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def _blocks(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> str:
    """Lay each row out as a table of its own."""
    blocks = []
    for row in rows:
        blocks.append(table({name: row[name] for name in names if row.get(name)}))
    return "\n\n".join(blocks)


def _row(one: Comparison) -> dict[str, str]:
    """Return the cells of one name by their columns."""
    endings = []
    for status, count in one.statuses.items():
        words = status.replace("_", " ")
        endings.append(words if count == one.runs else f"{count} {words}")
    delta = shown_delta(one.delta) if one.delta is not None else ""
    scores = {name: _score(spread) for name, spread in one.metrics.items()}
    risk = {}
    if one.tpr_at_fpr_1_percent is not None:
        risk["TPR at FPR 1 %"] = _span(one.tpr_at_fpr_1_percent, shown_share)
    return {
        "name": one.name,
        "runs": str(one.runs),
        "ended": ", ".join(endings),
        "epsilon": _epsilon(one),
        "delta": delta,
        **risk,
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
    return _span(one.epsilon, shown)


def _span(spread: Spread, write: Callable[[float], str]) -> str:
    low = write(spread.least)
    high = write(spread.most)
    return high if low == high else f"{low} to {high}"


def _score(spread: Spread) -> str:
    if spread.deviation is None:
        return f"{spread.mean:.4f}"
    return f"{spread.mean:.4f} +- {spread.deviation:.4f}"
