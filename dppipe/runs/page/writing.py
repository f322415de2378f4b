"""Writing the page of a run: whole or not at all, from the files of its directory alone."""

from __future__ import annotations

from pathlib import Path

from dppipe.errors import UsageError
from dppipe.runs.directory import RunDirectory, cannot_write, write_whole
from dppipe.runs.page.baseline import Baseline, read_baseline
from dppipe.runs.page.facts import page_facts
from dppipe.runs.page.page import page_of


def write_report(
    run: RunDirectory, *, nonprivate: bool = False, baseline: Baseline | None = None
) -> Path:
    """Write `report.html`, or `nonprivate/report.html`, and return its path.

    Guarantee: `report.html` holds nothing that was computed from private records without noise.

    Args:
        run: The run.
        nonprivate: Whether the page shows what no guarantee covers.
        baseline: Another run to compare with.

    Example:
        >>> from dppipe import RunDirectory
        >>> from dppipe.runs.page.writing import write_report
        >>> write_report(RunDirectory.open("runs/first")).name
        'report.html'
    """
    path = run.private_report if nonprivate else run.report
    page = page_of(page_facts(run, nonprivate=nonprivate, baseline=baseline))
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    write_whole(path, page.encode())
    return path


def open_baseline(path: Path, *, run: RunDirectory) -> tuple[Baseline, bool]:
    """Return the run to compare with, and whether only a page under `nonprivate/` may show it.

    What a run without a claim has reached follows from its records without noise.
    """
    other = RunDirectory.open(path)
    if other.path == run.path:
        raise UsageError(f"--baseline: expected another run than {path}, got the same one.")
    shown = read_baseline(other, nonprivate=False)
    if shown.protects:
        return shown, False
    return read_baseline(other, nonprivate=True), True
