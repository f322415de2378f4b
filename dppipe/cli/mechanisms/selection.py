"""A selection by score: the exponential mechanism and permute-and-flip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from dppipe.cli.mechanisms.asked import Asked, Single, at_delta
from dppipe.cli.mechanisms.groups import draw_pure_group, pure_group
from dppipe.cli.mechanisms.together import together
from dppipe.errors import UsageError
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.textbook.selections import Selection

_NAMES = {"exponential": "The exponential mechanism", "permute_and_flip": "Permute-and-flip"}
_KNOWN = {
    "exponential": "epsilon^2/8, by its bounded range (Cesar and Rogers 2021)",
    "permute_and_flip": "epsilon^2/2; no bounded range is known",
}
_FEW = 12
"""The most candidates whose scores stand beside each other under a picture."""
_RELATION: Relation = "add_remove"
"""Any will do: the sensitivity of a score is that of the relation, and nothing is doubled."""


def answer_selection(asked: Asked) -> Single:
    """Return the cost of a selection, of many, and the chances of candidates."""
    from dppipe.privacy.textbook.selections import selection_event, selection_rho

    kind = cast("Selection", asked.mechanism)
    epsilon = asked.epsilon or 0.0
    rho = selection_rho(kind, epsilon)
    steps = asked.steps or 1
    data: dict[str, Any] = {
        "mechanism": kind,
        "epsilon": epsilon,
        "delta": 0.0,
        "rho": rho,
        "certified": True,
    }
    facts = {
        "epsilon": f"{shown(epsilon)} for each selection, with delta 0, certified",
        "zCDP": f"rho {rho:g} for each: {_KNOWN[kind]}",
    }
    sentence = f"{_NAMES[kind]} costs epsilon {shown(epsilon)} and {rho:g} in zCDP"
    if asked.delta is not None:
        text, found = together(
            selection_event(kind, epsilon), delta=asked.delta, relation=_RELATION, count=steps
        )
        facts[f"{steps} selections" if steps > 1 else "at a delta"] = text
        data["together"] = found
        if steps > 1:
            sentence += f"; {steps} of them {at_delta(found['epsilon'], asked.delta)}"
    if asked.scores:
        facts["chances"], data["chances"] = _chances(asked, epsilon)
    if asked.group is not None:
        facts[f"group of {asked.group}"], data["group"] = pure_group(epsilon, asked.group)
    return Single(
        sentence=f"{sentence}.",
        facts=facts,
        data=data,
        draw=lambda figure: _draw(figure, asked, epsilon),
    )


def _chances(asked: Asked, epsilon: float) -> tuple[str, list[dict[str, float]]]:
    """Return the chance of each candidate by both mechanisms."""
    from dppipe.privacy.textbook.selections import exponential_chances, permute_and_flip_chances

    rows: list[dict[str, float]] = []
    exponential = exponential_chances(asked.scores, epsilon)
    flipped = permute_and_flip_chances(asked.scores, epsilon)
    for score, first, second in zip(asked.scores, exponential, flipped, strict=True):
        rows.append(
            {"score": score, "exponential": round(first, 6), "permute_and_flip": round(second, 6)}
        )
    shown_chances = [f"{row['score']:g}: {row[asked.mechanism]:.4g}" for row in rows]
    return f"by score, {', '.join(shown_chances)}", rows


def _draw(figure: Any, asked: Asked, epsilon: float) -> None:
    if asked.group is not None:
        draw_pure_group(figure, epsilon, asked.group, name=_NAMES[asked.mechanism])
    elif asked.scores:
        _draw_chances(figure, asked, epsilon)
    elif asked.delta is not None:
        _draw_many(figure, epsilon, delta=asked.delta, most=max(asked.steps or 0, 50))
    else:
        raise UsageError(
            f"--plot: expected --scores, --delta or --group with --mechanism {asked.mechanism}, "
            "got none of them. Scores draw the chances, a delta draws the cost of many selections."
        )


def _draw_chances(figure: Any, asked: Asked, epsilon: float) -> None:
    """Draw the chance of each candidate by both mechanisms, as bars."""
    axes = figure.subplots()
    _, rows = _chances(asked, epsilon)
    for shift, (kind, name) in zip((-0.2, 0.2), _NAMES.items(), strict=True):
        places = [place + shift for place in range(len(rows))]
        axes.bar(places, [row[kind] for row in rows], width=0.38, label=name)
    labels = [f"{row['score']:g}" for row in rows]
    axes.set_xticks(range(len(rows)), labels, rotation=90 if len(rows) > _FEW else 0)
    axes.set(xlabel="score of the candidate, in sensitivities", ylabel="probability")
    axes.set_title(f"Who is chosen at ε = {epsilon:g}", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3, axis="y")


def _draw_many(figure: Any, epsilon: float, *, delta: float, most: int) -> None:
    """Draw the cost of many selections by both mechanisms."""
    from dppipe.privacy.textbook.selections import selection_event
    from dppipe.privacy.textbook.together import cost_together

    axes = figure.subplots()
    counts = sorted({max(1, round(most * part / 25)) for part in range(1, 26)} | {1})
    axes.plot(counts, [count * epsilon for count in counts], ":", color="grey", label="sum, δ = 0")
    kinds: tuple[Selection, ...] = ("permute_and_flip", "exponential")
    for kind in kinds:
        event = selection_event(kind, epsilon)
        spent = cost_together(event, counts, delta=delta, relation=_RELATION)
        axes.plot(counts, [found.epsilon for found in spent], label=_NAMES[kind])
    axes.set(xlabel="selections", ylabel="ε", xlim=(0, most))
    axes.set_ylim(bottom=0)
    axes.set_title(f"Selections of ε = {epsilon:g} each, together at δ = {delta:g}", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3)
