"""Showing what the probes of an audit found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dppipe.cli.printing.screen import say

if TYPE_CHECKING:
    from dppipe.audit.probes.verdict import AuditReport


def show_report(report: AuditReport, folder: Path, *, as_json: bool) -> None:
    """Write an audit's files and show it; a rejected claim ends the command with exit code 4."""
    from dppipe.audit.audit_files import report_data, write_audit
    from dppipe.audit.probes.verdict import EXIT_REJECTED
    from dppipe.cli.printing.audit import report_text

    files = write_audit(report, folder)
    if as_json:
        typer.echo(json.dumps(report_data(report), indent=2))
    else:
        say(report_text(report, files))
    if report.rejected:
        raise typer.Exit(EXIT_REJECTED)
