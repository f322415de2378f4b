"""What `dppipe account` shows: one answer, a table of several, or a picture of their curves."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppipe.cli.text import table, wrapped
from dppipe.errors import UsageError
from dppipe.privacy.statement import guarantee_sentences, shown

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer


def one_answer(found: Answer, *, curve: bool) -> str:
    """Lay out one answer: its numbers, the curve where it was asked for, and what it means."""
    asked = found.question
    facts = {
        "epsilon": f"{shown(found.epsilon)} at delta {asked.delta:g}",
        "accountant": f"{found.accountant}, {_mark(found)}",
        "noise multiplier": f"{found.noise_multiplier:g} ({asked.mechanism})",
        "steps": str(found.steps),
        "sampler": f"{asked.sampler.kind}, sample rate {asked.sample_rate:g}",
        "relation": asked.relation,
    }
    parts = [table(facts)]
    if curve:
        parts.append("\n".join(f"  step {step:>8}  {shown(epsilon):>8}" for step, epsilon in found.curve))
    sentences = guarantee_sentences(epsilon=found.epsilon, delta=asked.delta, relation=asked.relation, certified=found.certified)
    return "\n\n".join([*parts, "\n".join(map(wrapped, sentences))])


def answer_table(answers: list[Answer], refused: list[dict[str, str]]) -> str:
    """Lay out several answers below each other, and what was refused under them."""
    lines = [f"  {'accountant':<11}{'epsilon':>9}  {'delta':>8}  {'noise':>8}  {'steps':>8}  status"]
    for found in answers:
        cells = f"{shown(found.epsilon):>9}  {found.question.delta:>8g}  {found.noise_multiplier:>8g}  {found.steps:>8}"
        lines.append(f"  {found.accountant:<11}{cells}  {'certified' if found.certified else 'ESTIMATE'}")
    if refused:
        lines += ["\nrefused", table({entry["accountant"]: entry["why"] for entry in refused})]
    return "\n".join(lines)


def _mark(found: Answer) -> str:
    return "certified: a proven upper bound" if found.certified else "an ESTIMATE: the truth may be higher"


def theorem_table(results: list[dict[str, Any]]) -> str:
    """Lay out what each composition theorem gives."""
    lines = []
    for result in results:
        epsilon = "none at this delta" if result["epsilon"] is None else f"epsilon {result['epsilon']:g}"
        lines.append(f"  {result['theorem']:<10}{epsilon:<20} at delta {result['delta']:g}, {result['steps']} mechanisms")
    return "\n".join(lines)


def write_plot(answers: list[Answer], path: Path) -> None:
    """Draw epsilon over the steps, estimates dashed."""

    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UsageError("--plot: expected matplotlib to be installed. Install dppipe[plot], or take --curve.") from None
    figure = figures.Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for found in answers:
        steps, epsilons = zip(*found.curve, strict=True) if found.curve else ((), ())
        label = f"{found.accountant}, delta {found.question.delta:g}{'' if found.certified else ' (estimate)'}"
        axes.plot(steps, epsilons, "-" if found.certified else "--", label=label)
    axes.set(xlabel="steps", ylabel="epsilon")
    axes.legend()
    figure.savefig(path)
