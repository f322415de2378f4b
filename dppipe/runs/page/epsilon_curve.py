"""The curve of epsilon: what was spent after each step, and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown
from dppipe.runs.page.markup.elements import EMPTY, beside, paragraph, section
from dppipe.runs.page.markup.plots import COLOURS, Plot, thinned
from dppipe.runs.page.step_counts import crashed_after

if TYPE_CHECKING:
    from dppipe.runs.page.facts import PageFacts

_TIPS = 40
_CURVE = (
    "Each point is a proven upper bound on all that was released up to there, at the budget's "
    "delta. The ledger has the same numbers."
)
_BY_FILTER = "Noise followed released values: only the budget as a whole is certain."
_ESTIMATE_ONLY = "Nothing is claimed of this run: this is what its ledger was charged."


def epsilon_curve(facts: PageFacts) -> Markup:
    """Return the curve with the line of the budget; nothing for a run without one."""
    if not facts.plan.private or not facts.plan.curve:
        return EMPTY
    said = _CURVE if facts.claims else _ESTIMATE_ONLY
    if facts.plan.schedule == "filter":
        said = f"{said} {_BY_FILTER}"
    shown_beside = beside(_picture(facts), paragraph(said))
    return section("Epsilon spent", shown_beside, ident="epsilon-curve")


def _picture(facts: PageFacts) -> Markup:
    from matplotlib.ticker import MaxNLocator

    plan = facts.plan
    word = "step" if plan.steps else "release"
    plot = Plot("epsilon", x=f"{word}s", y="epsilon")
    spent = _spent(facts)
    last = max([1, plan.steps or len(plan.releases), *[int(x) for x, _ in spent]])
    rest = [(point.step, point.epsilon) for point in plan.curve if point.step >= spent[-1][0]]
    axes = plot.axes
    budget = plan.budget_epsilon
    top = max([epsilon for _, epsilon in [*spent, *rest]], default=1.0)
    if budget is not None:
        axes.axhline(budget, color=COLOURS["budget"], linestyle=(0, (6, 3)), linewidth=1.4)
        plot.note(0, budget, f"budget {budget:g}", colour="budget", off=(6, 4))
        top = max(top, budget)
    if len(rest) > 1:
        kept = [rest[place] for place in thinned(len(rest))]
        line = [spent[-1], *kept]
        axes.plot(*_columns(line), color=COLOURS["planned"], linestyle=(0, (2, 2)))
        plot.note(*kept[-1], "planned", colour="planned", off=(-4, -6), ha="right", va="top")
    style = "default" if plan.steps else "steps-post"
    axes.plot(*_columns(spent), color=COLOURS["spent"], drawstyle=style)
    step, epsilon = spent[-1]
    axes.plot([step], [epsilon], "o", markersize=5, color=COLOURS["spent"])
    _mark_crashes(facts, plot, top=top)
    for place in thinned(len(spent), most=_TIPS):
        at, value = spent[place]
        plot.tip(at, value, f"after {word} {at:g}: epsilon {shown(value)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, last * 1.02)
    axes.set_ylim(0, top * 1.14)
    label = f"epsilon spent after each {word}: {shown(epsilon)} after {word} {step:g}"
    if budget is not None:
        label += f"; the budget is {budget:g}"
    return plot.svg(label)


def _mark_crashes(facts: PageFacts, plot: Plot, *, top: float) -> None:
    """Draw a line where the run had stopped and was resumed."""
    charges = () if facts.ledger is None else facts.ledger.charges
    for entry in facts.resumed:
        rows = crashed_after(entry)
        if not rows or rows > len(charges):
            continue
        at = charges[rows - 1].step if facts.plan.steps else rows
        word = "crash" if entry.get("after") == "killed" else "resumed"
        plot.axes.axvline(at, color=COLOURS["muted"], linestyle=(0, (1, 2)), linewidth=1.4)
        plot.note(at, 0.06 * top, word, colour="muted", off=(4, 0))
        plot.tip(at, 0.06 * top, f"the run was resumed after row {rows} of the ledger")


def _spent(facts: PageFacts) -> list[tuple[float, float]]:
    """Return what the ledger says was spent, from nothing on, by step or by row."""
    ledger = facts.ledger
    points = [(0.0, 0.0)]
    if ledger is None:
        return points
    rows = ledger.charges
    if facts.plan.steps:
        before = [charge.epsilon for charge in rows if charge.what != "step"]
        if before:
            points.append((0.0, before[-1]))
        found = [(float(charge.step), charge.epsilon) for charge in rows if charge.what == "step"]
    else:
        found = [(float(number), charge.epsilon) for number, charge in enumerate(rows, start=1)]
    return points + [found[place] for place in thinned(len(found))]


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
