"""`dppipe doctor`: check a spec's model with the engine before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecPath
from dppipe.cli.text import wrapped

if TYPE_CHECKING:
    from dppipe.engine.report import EngineReport


def doctor(spec_path: SpecPath, overrides: Overrides = None, plugins: Plugins = None, as_json: AsJson = False) -> None:
    """Compare the engine with a one-example loop on the spec's own model, with made-up input, and show what each layer costs."""
    from dppipe.spec.load import load_spec, placing_problems
    from dppipe.training.doctor import examine

    with placing_problems(spec_path, overrides=overrides or ()):
        report = examine(load_spec(spec_path, overrides=overrides or (), plugins=plugins))
    typer.echo(json.dumps(asdict(report), indent=2) if as_json else report_text(report))


def report_text(report: EngineReport) -> str:
    """Lay a report out for a person."""
    total = sum(parameter.values for parameter in report.parameters)
    lines = [f"  {'parameter':<28} {'values':>10}  {'group':<16} {'held as':<12} {'floats a row':>12}"]
    for parameter in report.parameters:
        form = f"{parameter.form} {parameter.kernel}".strip()
        lines.append(f"  {parameter.name:<28} {parameter.values:>10,}  {parameter.group:<16} {form:<12} {parameter.held:>12,}")
    slow = [f"  {path}: one row at a time, because {reason}" for path, reason in report.row_by_row.items()]
    verdict = f"The engine agrees with a one-example loop on all {total:,} trainable values; no example's loss follows another's."
    return "\n".join([*lines, "", *slow, *([""] if slow else []), wrapped(verdict)])
