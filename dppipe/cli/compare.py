"""`dppipe compare`: several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson

if TYPE_CHECKING:
    from dppipe.report.compare import Comparison, Spread

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or folders of them.", show_default=False)]


def compare(runs: Runs, as_json: AsJson = False) -> None:
    """Show how runs ended, what they cost and what they reached; runs of one name stand together."""
    from dppipe.report.compare import compare_runs, find_runs

    compared = compare_runs(find_runs(runs))
    typer.echo(json.dumps([one.to_data() for one in compared], indent=2) if as_json else comparison_text(compared))


def comparison_text(compared: Sequence[Comparison]) -> str:
    """Lay out one line for each name; with several runs a metric is its mean and standard deviation."""
    metrics = list(dict.fromkeys(name for one in compared for name in one.metrics))
    rows = [["name", "runs", "ended", "epsilon", "delta", *metrics]]
    for one in compared:
        ended = ", ".join(
            status.replace("_", " ") if count == one.runs else f"{count} {status.replace('_', ' ')}"
            for status, count in one.statuses.items()
        )
        delta = f"{one.delta:g}" if one.delta is not None else ""
        scores = [_score(one.metrics[name]) if name in one.metrics else "" for name in metrics]
        rows.append([one.name, str(one.runs), ended, _epsilon(one), delta, *scores])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _epsilon(one: Comparison) -> str:
    from dppipe.privacy.statement import shown

    if one.epsilon is None:
        return "unfinished" if one.private else "NOT PRIVATE"
    low, high = shown(one.epsilon.least), shown(one.epsilon.most)
    return high if low == high else f"{low} to {high}"


def _score(spread: Spread) -> str:
    return f"{spread.mean:.4f}" if spread.deviation is None else f"{spread.mean:.4f} +- {spread.deviation:.4f}"
