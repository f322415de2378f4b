"""What `dppipe account` shows: one answer, a table of several, or a picture of their curves."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.cli.printing.wrapping import table, wrapped
from dppipe.errors import UsageError
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.claims import guarantee_sentences

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer

_FAR_APART = 10.0
"""From this ratio of the largest to the smallest epsilon on, a picture is logarithmic."""
_NOTHING_FITS = "Not one step fits in this budget. Raise epsilon or the noise multiplier, or lower the sample rate."
_NOTHING_DONE = "Without a step nothing is released, so nothing is spent."


def one_answer(found: Answer, *, curve: bool) -> str:
    """Lay out one answer: its numbers, the curve where it was asked for, and what it means."""
    asked = found.question
    facts = {
        "epsilon": f"{shown(found.epsilon)} at delta {shown_delta(asked.delta)}",
        "accountant": f"{found.accountant}, {_mark(found)}",
        "noise multiplier": f"{found.noise_multiplier:g} ({asked.mechanism})",
        "steps": str(found.steps),
        "sampler": f"{asked.sampler.kind}, sample rate {asked.sample_rate:g}",
        "relation": asked.relation,
    }
    parts = [table(facts)]
    if curve and found.curve:
        parts.append(_curve_lines(found))
    if not found.steps:
        return "\n\n".join(
            [*parts, wrapped(_NOTHING_FITS if asked.steps is None else _NOTHING_DONE)]
        )
    sentences = guarantee_sentences(
        epsilon=found.epsilon,
        delta=asked.delta,
        relation=asked.relation,
        unit=asked.sampler.unit,
        certified=found.certified,
    )
    return "\n\n".join([*parts, "\n".join(map(wrapped, sentences))])


def answer_table(answers: list[Answer], refused: list[dict[str, str]], *, curve: bool) -> str:
    """Lay out several answers below each other, then their curves where these were asked for, and what was refused."""
    lines = [
        f"  {'accountant':<11}{'epsilon':>9}  {'delta':>8}  {'noise':>8}  {'steps':>8}  status"
    ]
    for found in answers:
        cells = f"{shown(found.epsilon):>9}  {shown_delta(found.question.delta):>8}  {found.noise_multiplier:>8g}  {found.steps:>8}"
        lines.append(
            f"  {found.accountant:<11}{cells}  {'certified' if found.certified else 'ESTIMATE'}"
        )
    if curve:
        lines += [f"\n{_name(found)}\n{_curve_lines(found)}" for found in answers if found.curve]
    if refused:
        lines += ["\nrefused", table({entry["accountant"]: entry["why"] for entry in refused})]
    return "\n".join(lines)


def _curve_lines(found: Answer) -> str:
    return "\n".join(f"  step {step:>8}  {shown(epsilon):>8}" for step, epsilon in found.curve)


def _name(found: Answer) -> str:
    mark = "certified" if found.certified else "ESTIMATE"
    return f"{found.accountant} at delta {shown_delta(found.question.delta)}, {mark}"


def _mark(found: Answer) -> str:
    return (
        "certified: a proven upper bound"
        if found.certified
        else "an ESTIMATE: the truth may be higher"
    )


def theorem_table(results: list[dict[str, Any]]) -> str:
    """Lay out what each composition theorem gives."""
    lines = []
    for result in results:
        epsilon = (
            "none at this delta" if result["epsilon"] is None else f"epsilon {result['epsilon']:g}"
        )
        lines.append(
            f"  {result['theorem']:<10}{epsilon:<20} at delta {shown_delta(result['delta'])}, {result['steps']} mechanisms"
        )
    return "\n".join(lines)


def write_plot(answers: list[Answer], path: Path) -> None:
    """Draw epsilon over the steps: certified curves whole, estimates dashed; logarithmic where curves lie far apart."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UsageError(
            "--plot: expected matplotlib to be installed. Install dppipe[plot], or take --curve."
        ) from None
    figure = figures.Figure(figsize=(7.5, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    deltas = sorted({found.question.delta for found in answers})
    ends = [found.epsilon for found in answers if 0 < found.epsilon < math.inf]
    logarithmic = bool(ends) and max(ends) > _FAR_APART * min(ends)
    for found in sorted(
        (found for found in answers if found.curve), key=lambda found: -found.epsilon
    ):  # so that the legend stands in the order of the curves
        name = (
            found.accountant
            if len(deltas) == 1
            else f"{found.accountant}, δ = {shown_delta(found.question.delta)}"
        )
        label = f"{name}: {shown(found.epsilon)}, {'certified' if found.certified else 'ESTIMATE'}"
        axes.plot(
            *zip(*found.curve, strict=True),
            "-" if found.certified else "--",
            linewidth=1.6,
            label=label,
        )
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
    figure.suptitle(_plot_title(answers, deltas), fontsize=10)
    if axes.lines:
        axes.legend(
            title="ε after the last step",
            fontsize=9,
            title_fontsize=9,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--plot: expected a picture that can be written, such as curve.png, got {path} ({error})."
        ) from None


def _plot_title(answers: list[Answer], deltas: list[float]) -> str:
    """Say what all curves have in common."""
    if not answers:
        return "no accountant has an answer"
    asked, noises = answers[0].question, {found.noise_multiplier for found in answers}
    facts = [f"{asked.sampler.kind}, sample rate {asked.sample_rate:g}", asked.relation]
    facts += [
        f"noise multiplier {noise:g} ({asked.mechanism})" for noise in noises if len(noises) == 1
    ]
    facts += [f"δ = {shown_delta(delta)}" for delta in deltas if len(deltas) == 1]
    return ", ".join(facts)
