"""What people read of a run: its statement and its page, written anew from its files alone."""

from __future__ import annotations

import os
from contextlib import suppress

from dppipe.runs.directory import RunDirectory
from dppipe.runs.page.writing import write_report
from dppipe.runs.statement.writing import write_statement

REPORT = "DPPIPE_REPORT"
"""The variable of the environment that turns the pages at the end of runs off."""


def write_documents(run: RunDirectory) -> None:
    """Write `privacy.json`, `privacy.md` and `report.html` anew.

    With `DPPIPE_REPORT=off` no page is written, and an earlier one, which may be out of date, is
    removed: `dppipe report RUN` writes it at any time.
    """
    wanted = os.environ.get(REPORT) != "off"
    write_statement(run, report=wanted)
    if wanted:
        write_report(run)
        return
    with suppress(OSError):
        run.report.unlink()
