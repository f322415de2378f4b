"""Mechanisms on disjoint parts of the records: the largest epsilon counts, not the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import DIGITS, Asked, Single
from dppipe.privacy.printing import shown, shown_delta
from dppipe.privacy.rounding import decimal_up, exact

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation

_ASSUMED = "This is assumed, and can't be checked here: no person has records in two parts"
_MOVING = {
    "replace_one": ", and a record that is replaced stays in its part.",
    "zero_out": ".",
    "add_remove": ".",
}


def answer_disjoint(asked: Asked) -> Single:
    """Return what declared-disjoint parts cost together (McSherry 2009)."""
    from dppipe.privacy.parallel import disjoint_epsilon

    relation: Relation = asked.relation or "zero_out"
    epsilon = disjoint_epsilon(asked.parts)
    total = decimal_up(sum(map(exact, asked.parts), exact(0)), DIGITS)
    delta = asked.delta or 0.0
    note = _ASSUMED + _MOVING[relation]
    at = f"at delta {shown_delta(delta)}" if delta else "with delta 0"
    data: dict[str, Any] = {
        "parts": list(asked.parts),
        "relation": relation,
        "epsilon": epsilon,
        "delta": delta,
        "sum": total,
        "certified": True,
        "assumption": note,
    }
    facts = {
        "epsilon": f"{shown(epsilon)} {at}: the largest of {len(asked.parts)} parts",
        "sum": f"{shown(total)}, if the parts weren't disjoint",
        "relation": relation,
    }
    return Single(
        sentence=f"Disjoint parts cost epsilon {shown(epsilon)} {at}: the largest, not the sum.",
        facts=facts,
        data=data,
        draw=lambda figure: _draw(figure, asked.parts, epsilon, total),
        notes=(note,),
    )


def _draw(figure: Any, parts: tuple[float, ...], epsilon: float, total: float) -> None:
    """Draw each part as a bar, with the largest and the sum as lines."""
    axes = figure.subplots()
    places = range(1, len(parts) + 1)
    axes.bar(places, parts, width=0.6)
    axes.axhline(epsilon, color="black", label=f"disjoint: {shown(epsilon)}")
    axes.axhline(total, color="C3", linestyle="--", label=f"not disjoint: {shown(total)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="part", ylabel="ε")
    axes.set_title("Disjoint parts: the largest ε counts", fontsize=10)
    axes.legend(fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.grid(alpha=0.3, axis="y")
