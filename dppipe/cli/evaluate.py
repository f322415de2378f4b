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

    if is_evaluated(run):
        note = (
            "The test split was scored before, and is scored once. These are the scores from then."
        )
        typer.echo(fit_terminal(note, stream=sys.stderr), err=True)
    scores = evaluate_run(run, plugins=plugins)
    text = {name: f"{value:.4f}" for name, value in scores.items()}
    typer.echo(json.dumps(plain_metrics(scores), indent=2) if as_json else table(text))
