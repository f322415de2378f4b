"""`dppipe doctor`: check a spec's model with the engine before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from dppipe.cli.options import AsJson, Overrides, Plugins, SpecFiles
from dppipe.cli.printing.columns import columns
from dppipe.cli.printing.screen import say
from dppipe.cli.printing.wrapping import wrapped
from dppipe.cli.spec_file import read_spec

if TYPE_CHECKING:
    from dppipe.engine.checks.report import EngineReport


_NUMBERS = ("values", "floats a row")


def doctor(
    spec_path: SpecFiles,
    overrides: Overrides = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Check the engine on a spec's own model and made-up input. It must agree with a loop over
    single examples; what each layer costs is shown."""
    from dppipe.pipeline.doctor import examine
    from dppipe.spec.load import placing_problems

    with placing_problems(spec_path, overrides=overrides or ()):
        report = examine(read_spec(spec_path, overrides=overrides, plugins=plugins))
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        say(report_text(report))


def report_text(report: EngineReport) -> str:
    """Lay a report out for a person."""
    total = sum(parameter.values for parameter in report.parameters)
    rows = []
    for one in report.parameters:
        by = f" by {one.kernel}" if one.kernel not in ("", one.form) else ""
        rows.append((one.name, one.group, f"{one.form}{by}", f"{one.values:,}", f"{one.held:,}"))
    names = ("parameter", "group", "held as", *_NUMBERS)
    lines = [columns(names, rows, numbers=_NUMBERS), ""]
    for path, reason in report.row_by_row.items():
        lines.append(f"  {path}: one row at a time, because {reason}")
    if report.row_by_row:
        lines.append("")
    verdict = (
        f"The engine agrees with a one-example loop on all {total:,} trainable values; no "
        "example's loss follows another's."
    )
    return "\n".join([*lines, wrapped(verdict)])
