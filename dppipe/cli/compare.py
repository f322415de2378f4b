"""`dppipe compare`: several runs side by side, a row for each setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dppipe.cli.options import AsJson

if TYPE_CHECKING:
    from dppipe.report.comparison.ranking import Comparison

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...", help="Run directories, or folders of them.", show_default=False
    ),
]


def compare(
    runs: Runs,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Rank settings by this metric.")
    ] = None,
    nonprivate: Annotated[
        bool, typer.Option("--nonprivate", help="Show metrics of a private holdout, too.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with all of it.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the metric over epsilon.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what settings differ in, their cost and their metrics.

    Runs of one setting are averaged. Runs that differ in more than their seed aren't.
    """
    from dppipe.report.comparison.ranking import compare_runs
    from dppipe.report.comparison.reading import find_runs

    compared = compare_runs(find_runs(runs), metric=metric, nonprivate=nonprivate)
    if plot is not None:
        _draw(compared, plot)
    if html is not None:
        _write_page(compared, html)
    show_comparison(compared, as_json=as_json)
    if html is not None and not as_json:
        typer.echo(f"\npage: {html}")


def show_comparison(compared: Comparison, *, as_json: bool) -> None:
    """Print a comparison."""
    from dppipe.cli.printing.comparison import print_comparison

    if as_json:
        typer.echo(json.dumps(compared.to_data(), indent=2))
    else:
        print_comparison(compared)


def _write_page(compared: Comparison, path: Path) -> None:
    from dppipe.report.comparison.page import comparison_page
    from dppipe.runs.directory import write_whole

    write_whole(path, comparison_page(compared, title="Runs compared").encode())


def _draw(compared: Comparison, path: Path) -> None:
    from dppipe.cli.plots.figures import new_figure, save_figure
    from dppipe.errors import UsageError
    from dppipe.report.comparison.picture import can_draw, draw_frontier

    if not can_draw(compared):
        raise UsageError(
            "--plot: expected runs with an epsilon and a metric that may be shown, got none. "
            "Leave it out, or see --nonprivate."
        )
    figure = new_figure()
    draw_frontier(figure.subplots(), compared)
    save_figure(figure, path)
