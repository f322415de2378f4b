"""How an audit looks on a screen: the verdict first, then a table, twelve lines at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.audit.probes.verdict import LEVEL, shown_p, shown_power
from dppipe.cli.printing.columns import columns
from dppipe.cli.printing.wrapping import short_path, wrapped

if TYPE_CHECKING:
    from dppipe.audit.probes.audit_spec import Progress
    from dppipe.audit.probes.verdict import AuditReport, ProbeResult

MOST_LINES = 12
_DONE = 1.0


def report_text(report: AuditReport, files: Sequence[Path]) -> str:
    """Lay an audit out for a person."""
    lines = wrapped(f"{report.name}: {report.verdict}").splitlines()
    if report.probes:
        lines += _table(report.probes)
    if report.rejected:
        for probe in report.probes:
            if probe.rejected:
                lines += wrapped(f"{probe.probe}: {probe.measured}").splitlines()
    where = short_path(files[0].parent) if files else ""
    closing = f"{report.seconds:.0f} s. Nothing was read or spent. See {where}/audit.md"
    if report.probes:
        closing = f"False alarms: {LEVEL:.0%} at most. {closing}"
    else:
        lines += [wrapped(note) for note in report.notes]
    return "\n".join([*lines[: MOST_LINES - 1], closing])


def _table(probes: Sequence[ProbeResult]) -> list[str]:
    rows = []
    for probe in probes:
        level = f"{probe.level:.2%}" if probe.level else "exact"
        found = probe.fault
        if probe.power < _DONE:
            found = f"{found}: {shown_power(probe.power)}"
        rows.append((probe.probe, shown_p(probe.p_value), level, found))
    names = ("probe", "p-value", "level", "would have found")
    return columns(names, rows, numbers=("p-value", "level")).splitlines()


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show on a terminal's error stream how far each probe is; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name, done, total: None
        return
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=min(done, total), total=total)

        yield show
