"""`bounds.png`: what each method contradicts, what it could have, and what is claimed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.privacy.printing import shown
from dppipe.runs.directory import replacing

if TYPE_CHECKING:
    from dppipe.audit.one_run.result import Result

_COLOURS = {"bound": "#1f5a99", "claim": "#222222", "contradicts": "#c0392b", "ceiling": "#7f8c8d"}


def draw_bounds(result: Result, path: Path) -> Path | None:
    """Draw the bounds of an audit; return None where matplotlib isn't installed."""
    if find_spec("matplotlib") is None:
        return None
    from matplotlib.figure import Figure

    rows = _rows(result)
    right = 1.15 * max([result.claimed_epsilon, *(ceiling for _, _, ceiling in rows)])
    figure = Figure(figsize=(8.0, 1.7 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(result.claimed_epsilon, right, color=_COLOURS["contradicts"], alpha=0.10)
    axes.axvline(result.claimed_epsilon, color=_COLOURS["claim"], linewidth=1.5)
    for place, (_, lower, ceiling) in enumerate(rows):
        axes.annotate(
            "",
            xy=(min(lower + 0.09 * right, right), place),
            xytext=(lower, place),
            arrowprops={"arrowstyle": "->", "color": _COLOURS["bound"], "linewidth": 1.5},
        )
        axes.plot([lower], [place], "o", color=_COLOURS["bound"], clip_on=False, zorder=3)
        axes.plot([ceiling] * 2, [place - 0.22, place + 0.22], color=_COLOURS["ceiling"], lw=3)
    top = -0.75
    claim = f" claim: at most {shown(result.claimed_epsilon)} "
    side = "right" if result.claimed_epsilon > right / 2 else "left"
    axes.text(result.claimed_epsilon, top, claim, va="center", ha=side, fontsize=9)
    said = axes.text(right, top, "contradicts the claim ", va="center", ha="right", fontsize=9)
    said.set_color(_COLOURS["contradicts"])
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -1.1)
    axes.set_xlim(0, right)
    axes.set_xlabel(
        f"epsilon at delta {result.plan.delta:g}; dot: at least, bar: the most that could be shown"
    )
    axes.set_title(_title(result), loc="left", fontsize=11)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    return path


def _rows(result: Result) -> list[tuple[str, float, float]]:
    """Return each method's name, bound and ceiling."""
    inside = result.bounds
    rows = [
        ("(epsilon, delta)", inside.epsilon_lower, inside.ceiling),
        ("Gaussian family", inside.gaussian_family, inside.gaussian_family_ceiling),
    ]
    if result.black_box is not None:
        rows.append(("black box", result.black_box.epsilon_lower, result.black_box.ceiling))
    return rows


def _title(result: Result) -> str:
    return result.verdict.replace("; ", ";\n", 1)
