"""The picture of `dppipe account --plot`: epsilon over the steps, by each accountant."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.cli.plots.figures import new_figure, save_figure
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer

_FAR_APART = 10.0
"""From this ratio of the largest to the smallest epsilon on, a picture is logarithmic."""


def write_plot(answers: list[Answer], path: Path) -> None:
    """Draw epsilon over the steps: certified curves solid, estimates dashed."""
    figure = new_figure()
    axes = figure.subplots()
    deltas = sorted({found.question.delta for found in answers})
    _draw_curves(axes, answers, several_deltas=len(deltas) > 1)
    _scale_axes(axes, answers)
    figure.suptitle(_plot_title(answers, deltas), fontsize=10)
    if axes.lines:
        axes.legend(
            title="ε after the last step",
            fontsize=9,
            title_fontsize=9,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )
    save_figure(figure, path)


def _draw_curves(axes: Any, answers: list[Answer], *, several_deltas: bool) -> None:
    """Draw the highest curve first, so that the legend has the order of the curves."""
    drawn = [found for found in answers if found.curve]
    for found in sorted(drawn, key=lambda found: -found.epsilon):
        name = found.accountant
        if several_deltas:
            name = f"{name}, δ = {shown_delta(found.question.delta)}"
        status = "certified" if found.certified else "ESTIMATE"
        axes.plot(
            *zip(*found.curve, strict=True),
            "-" if found.certified else "--",
            linewidth=1.6,
            label=f"{name}: {shown(found.epsilon)}, {status}",
        )


def _scale_axes(axes: Any, answers: list[Answer]) -> None:
    """Set the scales: epsilon is logarithmic where curves lie far apart."""
    ends = [found.epsilon for found in answers if 0 < found.epsilon < math.inf]
    logarithmic = bool(ends) and max(ends) > _FAR_APART * min(ends)
    axes.set(
        xlabel="steps",
        ylabel="ε (logarithmic)" if logarithmic else "ε",
        yscale="log" if logarithmic else "linear",
    )
    axes.set_xlim(left=0)
    if not logarithmic:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)


def _plot_title(answers: list[Answer], deltas: list[float]) -> str:
    """Return what all curves have in common."""
    if not answers:
        return "no accountant has an answer"
    asked = answers[0].question
    noises = {found.noise_multiplier for found in answers}
    facts = [f"{asked.sampler.kind}, sample rate {asked.sample_rate:g}", asked.relation]
    if len(noises) == 1:
        facts.append(f"noise multiplier {noises.pop():g} ({asked.mechanism})")
    if len(deltas) == 1:
        facts.append(f"δ = {shown_delta(deltas[0])}")
    return ", ".join(facts)
