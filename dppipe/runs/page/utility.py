"""How good the model is, where that may be shown, with intervals and beside a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown
from dppipe.runs.page.markup.elements import EMPTY, joined, paragraph, section, table
from dppipe.runs.page.markup.plots import COLOURS, Plot
from dppipe.runs.page.publishing import looks

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts
    from dppipe.runs.page.metrics import Metric

_INTERVAL = (
    "The interval is that of Wilson for 95 %, for independent records. It says how far chance in "
    "the choice of these records moves the number, not how far another training would."
)
_LEFT_OUT = (
    "Metrics of the private holdout are left out of this page: they carry no noise, and no "
    "guarantee covers them."
)
_NONE = "No metrics were recorded."
_CAREFUL = "Numbers marked `nonprivate/` carry no noise. Don't release them."
_OTHER_LEFT_OUT = (
    "The baseline {name} makes no claim, and its metrics follow from records without noise. They "
    "are on the page under `nonprivate/` alone."
)


def utility(facts: PageFacts) -> Markup:
    """Return the metrics of the final model."""
    said = []
    if facts.metrics and looks(facts):
        said.append(paragraph(looks(facts)))
    if facts.left_out:
        said.append(paragraph(_LEFT_OUT))
    if any(metric.is_private for metric in facts.metrics):
        said.append(paragraph(_CAREFUL, style="alarm"))
    if any(metric.interval for metric in facts.metrics):
        said.append(paragraph(_INTERVAL))
    if not facts.metrics and not said:
        said.append(paragraph(_NONE))
    return section("How good the model is", _table(facts), _picture(facts), *said, ident="utility")


def _table(facts: PageFacts) -> Markup:
    if not facts.metrics:
        return EMPTY
    heading = ["metric", "value", "95 % interval", "records"]
    other = facts.baseline
    if other is not None:
        promise = "not private" if other.epsilon is None else f"epsilon {shown(other.epsilon)}"
        heading.append(f"baseline {other.name} ({promise})")
    rows = []
    for metric in facts.metrics:
        cells = [metric.name, f"{metric.value:.4f}", _interval(metric), _count(metric)]
        if other is not None:
            cells.append(_beside(other.matching(metric)))
        rows.append(cells)
    return table(rows, heading=heading, style="numbers-table")


def _beside(metric: Metric | None) -> str:
    if metric is None:
        return "none"
    interval = _interval(metric)
    return f"{metric.value:.4f} ({interval})" if metric.interval else f"{metric.value:.4f}"


def _interval(metric: Metric) -> str:
    if metric.interval is None:
        return ""
    low, high = metric.interval
    return f"{low:.4f} to {high:.4f}"


def _count(metric: Metric) -> str:
    return "" if metric.records is None else str(metric.records)


def _picture(facts: PageFacts) -> Markup:
    """Draw accuracies with their intervals, this run's above the baseline's."""
    drawn = _drawn(facts)
    if not any(metric.interval for _, metric, _ in drawn):
        return EMPTY
    height = 0.75 + 0.36 * len(drawn)
    plot = Plot("utility", x="accuracy", y="", height=height, left=1.55)
    axes = plot.axes
    lows = []
    for place, (name, metric, colour) in enumerate(drawn):
        low, high = metric.interval or (metric.value, metric.value)
        lows.append(low)
        axes.plot([low, high], [place, place], color=COLOURS[colour])
        axes.plot([metric.value], [place], "o", color=COLOURS[colour])
        plot.tip(metric.value, place, f"{name}: {metric.value:.4f}, {_interval(metric)}")
    axes.set_yticks(range(len(drawn)), [name for name, _, _ in drawn])
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlim(max(0.0, min(lows) - 0.1), 1.0)
    said = ", ".join(f"{name} {metric.value:.4f}" for name, metric, _ in drawn)
    return plot.svg(f"accuracies with 95 % intervals: {said}")


def _drawn(facts: PageFacts) -> list[tuple[str, Metric, str]]:
    """Return the accuracies to draw, each with its name and colour."""
    drawn: list[tuple[str, Metric, str]] = []
    for metric in facts.metrics:
        if not metric.plain_name.endswith("/accuracy"):
            continue
        drawn.append((metric.plain_name, metric, "spent"))
        beside = None if facts.baseline is None else facts.baseline.matching(metric)
        if beside is not None:
            drawn.append(("baseline", beside, "planned"))
    return drawn


def private_findings(facts: PageFacts) -> Markup:
    """Return what attacks on the model have found; on the page under `nonprivate/` alone."""
    parts = []
    for found in facts.findings:
        parts.append(Markup("<h3>{}</h3>\n<pre>{}</pre>\n").format(found.name, found.text))
    return section("What attacks found", joined(parts), ident="attacks")
