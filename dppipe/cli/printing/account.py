"""What `dppipe account` prints: one answer, a table of several, or what theorems give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.cli.printing.columns import columns
from dppipe.cli.printing.curves import Point, curve_text
from dppipe.cli.printing.second_opinion import opinion_text
from dppipe.cli.printing.wrapping import table, wrapped
from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.statement.claims import guarantee_sentences

if TYPE_CHECKING:
    from dppipe.planning.questions import Answer
    from dppipe.privacy.second_opinion import SecondOpinion

_NOTHING_FITS = (
    "Not one step fits in this budget. Raise epsilon or the noise multiplier, or lower the sample "
    "rate."
)
_NOTHING_DONE = "Without a step nothing is released, so nothing is spent."
_NUMBERS = ("epsilon", "delta", "noise", "steps")


def one_answer(found: Answer, opinion: SecondOpinion | None = None, *, curve: bool) -> str:
    """Lay out one answer: its numbers, its curve if `curve`, and what it means."""
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
    if opinion is not None:
        parts.append(opinion_text(opinion, ours=found.epsilon, certified=found.certified))
    if not found.steps:
        parts.append(wrapped(_NOTHING_FITS if asked.steps is None else _NOTHING_DONE))
        return "\n\n".join(parts)
    sentences = guarantee_sentences(
        epsilon=found.epsilon,
        delta=asked.delta,
        relation=asked.relation,
        unit="user" if asked.sampler.needs_users else "example",
        certified=found.certified,
    )
    parts.append("\n".join(map(wrapped, sentences)))
    return "\n\n".join(parts)


def answer_table(
    answers: list[Answer],
    refused: list[dict[str, str]],
    opinions: list[SecondOpinion],
    *,
    curve: bool,
) -> str:
    """Lay out several answers below each other, then their curves, opinions and refusals."""
    lines = [columns(("accountant", *_NUMBERS, "status"), _rows(answers), numbers=_NUMBERS)]
    if curve:
        for found in answers:
            if found.curve:
                lines.append(f"\n{_name(found)}\n{_curve_lines(found)}")
    if opinions:
        for found, opinion in zip(answers, opinions, strict=True):
            text = opinion_text(opinion, ours=found.epsilon, certified=found.certified)
            lines.append(f"\n{_name(found)}\n{text}")
    if refused:
        lines += ["\nrefused", table({entry["accountant"]: entry["why"] for entry in refused})]
    return "\n".join(lines)


def _rows(answers: list[Answer]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for found in answers:
        row = (
            found.accountant,
            shown(found.epsilon),
            shown_delta(found.question.delta),
            f"{found.noise_multiplier:g}",
            str(found.steps),
            "certified" if found.certified else "ESTIMATE",
        )
        rows.append(row)
    return rows


def _curve_lines(found: Answer) -> str:
    return curve_text([Point(step, epsilon) for step, epsilon in found.curve])


def _name(found: Answer) -> str:
    mark = "certified" if found.certified else "ESTIMATE"
    return f"{found.accountant} at delta {shown_delta(found.question.delta)}, {mark}"


def _mark(found: Answer) -> str:
    if found.certified:
        return "certified: a proven upper bound"
    return "an ESTIMATE: the truth may be higher"


def theorem_table(results: list[dict[str, Any]]) -> str:
    """Lay out the epsilon of each composition theorem."""
    lines = []
    for result in results:
        epsilon = "none at this delta"
        if result["epsilon"] is not None:
            epsilon = f"epsilon {result['epsilon']:g}"
        delta = shown_delta(result["delta"])
        lines.append(
            f"  {result['theorem']:<10}{epsilon:<20} at delta {delta}, {result['steps']} mechanisms"
        )
    return "\n".join(lines)
