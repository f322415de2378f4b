"""The picture of an audit: what each probe has measured at least, over what is claimed."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dppipe.audit.probes.verdict import AuditReport, ProbeResult

_WIDEST = 4.0
"""The largest ratio that is drawn; what lies beyond is written out."""
_INK = "#1f2933"
_DOT = "#1f6f8b"
_REJECTED = "#b3261e"
_WHAT = {
    "influence": "how far a canary moves a sum",
    "noise": "epsilon of one release",
    "fit": "claimed over measured noise",
    "transcript": "epsilon of an epoch",
    "two worlds": "epsilon of the release",
}


def draw_bounds(report: AuditReport, path: Path) -> Path | None:
    """Draw a row for each probe that has a ratio; None where matplotlib is missing.

    A dot is a lower bound, an arrow says that the truth may lie to its right, and a short bar is
    the most that so many draws could have shown.
    """
    probes = [probe for probe in report.probes if probe.ratio is not None]
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return None
    if not probes:
        return None
    height = 1.6 + 0.55 * len(probes)
    figure = figures.Figure(figsize=(7.5, height), dpi=110, layout="constrained")
    axes = figure.subplots()
    right = _right_end(probes)
    axes.axvspan(1.0, right, color=_REJECTED, alpha=0.08)
    axes.axvline(1.0, color=_INK, linewidth=1.4)
    for place, probe in enumerate(probes):
        _draw_row(axes, probe, place, right=right)
    axes.set_yticks(range(len(probes)), [_label(probe) for probe in probes], fontsize=9)
    axes.set_ylim(len(probes) - 0.5, -0.75)
    axes.set_xlim(0.0, right)
    axes.set_xlabel("at least this, relative to the claim (1 = as claimed)", fontsize=9)
    axes.text(1.0, -0.55, " contradicts the claim", color=_REJECTED, fontsize=9, va="center")
    axes.tick_params(axis="x", labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    title = "\n".join(textwrap.wrap(f"{report.name}: {report.verdict}", 88))
    figure.suptitle(title, fontsize=10, color=_REJECTED if report.rejected else _INK)
    figure.savefig(path)
    return path


def _right_end(probes: list[ProbeResult]) -> float:
    largest = 1.3
    for probe in probes:
        for value in (probe.ratio, probe.ceiling):
            if value is not None and value < _WIDEST:
                largest = max(largest, value)
    beyond = any(not (probe.ratio or 0.0) < _WIDEST for probe in probes)
    return _WIDEST if beyond else largest * 1.12


def _draw_row(axes: Any, probe: ProbeResult, place: int, *, right: float) -> None:
    colour = _REJECTED if probe.rejected else _DOT
    ratio = probe.ratio or 0.0
    inside = ratio < right
    shown = ratio if inside else right * 0.97
    axes.plot([shown], [place], "o", color=colour, markersize=7, clip_on=False)
    if inside and probe.probe not in ("influence", "fit"):
        arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.2}
        axes.annotate("", (shown + 0.1 * right, place), (shown, place), arrowprops=arrow)
    text = f"{ratio:.3g}"
    # Left of its dot, so that the claim's line doesn't run through the number; not where the names
    # of the probes stand.
    near_names = shown < 0.12 * right
    axes.annotate(
        text,
        (shown, place),
        xytext=(0, 8) if near_names else (-7, 6),
        textcoords="offset points",
        ha="left" if near_names else "right",
        fontsize=8.5,
        color=colour,
    )
    if probe.ceiling is not None and probe.ceiling < right:
        axes.plot([probe.ceiling] * 2, [place - 0.2, place + 0.2], color="#8a94a0", linewidth=2)


def _label(probe: ProbeResult) -> str:
    return f"{probe.probe}: {_WHAT.get(probe.probe, 'measured')}"
