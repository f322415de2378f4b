"""The privacy-utility frontier: a metric over epsilon, a colour for each kind of epsilon."""

from __future__ import annotations

import importlib
import io
import math
import re
from typing import Any

from dppipe.report.comparison.ranking import Comparison, Ranking, falls
from dppipe.report.comparison.settings import Setting
from dppipe.report.comparison.spread import Spread

COLOURS = ("#3f7fbf", "#d9822b", "#2f9e77", "#b8559a", "#8a7a2e", "#7a6fd0")
"""They can be read on white and on black."""
_INK = "#010203"
"""The colour of text and lines, which a page replaces by its own."""


def can_draw(comparison: Comparison) -> bool:
    """Whether some setting has an epsilon and the metric that ranks."""
    return any(ranking.frontier for ranking in comparison.rankings)


def draw_frontier(axes: Any, comparison: Comparison) -> None:
    """Draw every setting with an epsilon, and settings without privacy as lines across."""
    metric = comparison.metric or ""
    drawn = [ranking for ranking in comparison.rankings if ranking.frontier]
    for number, ranking in enumerate(drawn):
        _draw_ranking(axes, ranking, metric, colour=COLOURS[number % len(COLOURS)])
    for ranking in comparison.rankings:
        if ranking.settings[0].claim == "not private":
            _draw_baselines(axes, ranking, metric)
    better = "lower" if falls(metric) else "higher"
    axes.set(xlabel="ε of one run", ylabel=f"{metric} ({better} is better)")
    ends = [found for ranking in drawn for found in _epsilons(ranking)]
    if min(ends) > 0 and max(ends) > 4 * min(ends):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")
    axes.margins(x=0.08, y=0.12)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def frontier_svg(comparison: Comparison) -> str | None:
    """Return the picture as SVG for a page, in the page's own colours.

    None where there is nothing to draw, or matplotlib isn't installed.
    """
    if not can_draw(comparison):
        return None
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return None
    style = {"svg.fonttype": "none", "svg.hashsalt": "dppipe", "text.color": _INK}
    for name in ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"):
        style[name] = _INK
    with matplotlib.rc_context(style):
        figure = figures.Figure(figsize=(7.5, 4.6), layout="constrained")
        draw_frontier(figure.subplots(), comparison)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue())


def _inline(svg: str) -> str:
    """Return SVG without its prolog and metadata, with the page's colour for ink."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    return body.replace(_INK, "currentColor").strip()


def _draw_ranking(axes: Any, ranking: Ranking, metric: str, *, colour: str) -> None:
    label = ranking.title
    for setting in ranking.settings:
        spread = setting.metrics.get(metric)
        if setting.epsilon is None or spread is None or not math.isfinite(spread.mean):
            continue
        axes.errorbar(
            setting.epsilon.most,
            spread.mean,
            yerr=spread.deviation,
            fmt="o" if setting in ranking.frontier else "x",
            color=colour,
            capsize=3,
            label=label,
        )
        label = "_nolegend_"
    axes.plot(*_steps(ranking, metric), color=colour, linewidth=1.2, label="_nolegend_")


def _steps(ranking: Ranking, metric: str) -> tuple[list[float], list[float]]:
    """Return the frontier as steps: a mean is reached from its epsilon on."""
    across: list[float] = []
    up: list[float] = []
    for setting in ranking.frontier:
        if setting.epsilon is None:
            continue
        if up:
            across.append(setting.epsilon.most)
            up.append(up[-1])
        across.append(setting.epsilon.most)
        up.append(setting.metrics[metric].mean)
    return across, up


def _draw_baselines(axes: Any, ranking: Ranking, metric: str) -> None:
    for setting in ranking.settings:
        spread = setting.metrics.get(metric)
        if spread is not None:
            label = f"not private: {_name(setting, spread)}"
            axes.axhline(spread.mean, color="#888888", linestyle="--", label=label)


def _name(setting: Setting, spread: Spread) -> str:
    return f"{', '.join(setting.names)}, {spread.mean:.4f}"


def _epsilons(ranking: Ranking) -> list[float]:
    return [setting.epsilon.most for setting in ranking.settings if setting.epsilon is not None]
