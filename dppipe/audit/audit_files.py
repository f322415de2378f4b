"""The files of an audit: `audit.json` for programs, `audit.md` for people, and one picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.audit.probes.verdict import LEVEL, shown_p, shown_power
from dppipe.durable import sync
from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.audit.probes.verdict import AuditReport

_MEANING = """\
An audit looks for a contradiction between what is charged and what the code does. It ran the
private code on made-up records: no record was read, and nothing was spent. What no probe looks
for stays unseen, so this page is no proof that training is private: the proof is in the
accounting. A rejected claim is evidence of a fault."""


def report_data(report: AuditReport) -> dict[str, Any]:
    """Return all numbers of an audit as plain data."""
    data = asdict(report)
    data["verdict"] = report.verdict
    data["rejected"] = report.rejected
    data["p_value"] = report.p_value
    for plain, probe in zip(data["probes"], report.probes, strict=True):
        plain["rejected"] = probe.rejected
        plain["adjusted_p_value"] = probe.adjusted
    found: dict[str, Any] = _plain(data)
    return found


def write_audit(report: AuditReport, folder: Path) -> list[Path]:
    """Write the files of an audit into a folder, which is made; return them.

    The picture is left out where matplotlib isn't installed.
    """
    from dppipe.audit.pictures import draw_bounds

    try:
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / "audit.json"
        data.write_text(json.dumps(report_data(report), indent=2) + "\n")
        picture = draw_bounds(report, folder / "bounds.png")
        page = folder / "audit.md"
        page.write_text(report_page(report, picture=picture))
    except OSError as error:
        raise UsageError(
            f"{folder}: expected a folder that can be written, got: {error.strerror}. Give "
            "another one by --out."
        ) from error
    sync(folder)
    return [data, page, picture] if picture is not None else [data, page]


def report_page(report: AuditReport, *, picture: Path | None) -> str:
    """Return the page for people, in Markdown."""
    lines = [f"# Audit of {report.name}", "", f"**{report.verdict}**", "", _MEANING, ""]
    if picture is not None:
        lines += [f"![What was measured, over what is claimed]({picture.name})", ""]
    lines += [
        f"Learner {report.learner}, relation {report.relation}, unit {report.unit}. What is "
        f"tested is {report.release}. {report.seconds:.0f} seconds.",
        "",
        "| probe | claimed | measured | p-value, at level | would have found |",
        "|---|---|---|---|---|",
    ]
    for probe in report.probes:
        found = f"{probe.fault}: {shown_power(probe.power)}" if probe.power < 1 else probe.fault
        lines.append(
            f"| {probe.probe} | {probe.claimed} | {probe.measured} | "
            f"{_level(probe.p_value, probe.level)} | {found} |"
        )
    lines += ["", f"An audit of correct code rejects its claim with probability {LEVEL:g} at most."]
    lines += [f"- {note}" for note in _all_notes(report)]
    return "\n".join(lines) + "\n"


def _level(p_value: float, level: float) -> str:
    return f"{shown_p(p_value)}, {level:g}" if level else "exact"


def _all_notes(report: AuditReport) -> list[str]:
    found = list(report.notes)
    for probe in report.probes:
        found += probe.notes
    return found


def _plain(value: Any) -> Any:
    """Return data that JSON can hold: what isn't finite becomes a text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
