"""`dppipe evaluate`: score the test split of a finished run, once."""

from __future__ import annotations

import json
import sys

import typer

from dppipe.cli.options import AsJson, Plugins, RunPath
from dppipe.cli.printing.wrapping import fit_terminal, table


def evaluate(run: RunPath, plugins: Plugins = None, as_json: AsJson = False) -> None:
    """Score the test split of a finished run, once.

    The statement says so; later calls show the same scores.
    """
    from dppipe.pipeline.evaluate import evaluate_run, is_evaluated
    from dppipe.runs.outcome import plain_metrics
    from dppipe.runs.showing.confusion import shown_metrics

    if is_evaluated(run):
        note = (
            "The test split was scored before, and is scored once. These are the scores from then."
        )
        typer.echo(fit_terminal(note, stream=sys.stderr), err=True)
    scores = evaluate_run(run, plugins=plugins)
    if as_json:
        typer.echo(json.dumps(plain_metrics(scores), indent=2))
    else:
        typer.echo(table(shown_metrics(scores)))
