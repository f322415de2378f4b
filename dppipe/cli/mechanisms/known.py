"""A mechanism of which only epsilon and delta are known: what they are worth for a group."""

from __future__ import annotations

from typing import Any

from dppipe.cli.mechanisms.asked import Asked, Single
from dppipe.privacy.printing import shown, shown_delta


def answer_known(asked: Asked) -> Single:
    """Return k epsilon, and the delta that it holds at."""
    from dppipe.privacy.textbook.group import group_delta, pure_group_epsilon

    epsilon = asked.epsilon or 0.0
    delta = asked.delta or 0.0
    k = asked.group or 1
    grown = group_delta(epsilon, delta, k)
    together = pure_group_epsilon(epsilon, k)
    data: dict[str, Any] = {
        "mechanism": "epsilon_delta",
        "epsilon": epsilon,
        "delta": delta,
        "certified": True,
        "group": {
            "size": k,
            "epsilon": together,
            "delta": grown,
            "by": "conversion",
            "certified": grown < 1,
        },
    }
    facts = {
        "one unit": f"epsilon {shown(epsilon)} at delta {shown_delta(delta)}, as given",
        f"group of {k}": f"epsilon {shown(together)} at delta {shown_delta(grown)}",
        "by": f"conversion: delta grows by 1 + e^epsilon + ... + e^({k - 1} epsilon) (certified)",
    }
    sentence = (
        f"A group of {k} has epsilon {shown(together)} at delta {shown_delta(grown)}, certified."
    )
    if grown >= 1:
        facts["by"] = "conversion: at delta 1 anything may be revealed"
        sentence = f"Nothing is promised to a group of {k}: its delta reaches 1."
    return Single(
        sentence=sentence,
        facts=facts,
        data=data,
        draw=lambda figure: _draw(figure, epsilon, delta, k),
    )


def _draw(figure: Any, epsilon: float, delta: float, k: int) -> None:
    """Draw epsilon and delta over the size of the group."""
    from dppipe.privacy.textbook.group import group_delta

    left = figure.subplots()
    right = left.twinx()
    sizes = range(1, k + 1)
    (first,) = left.plot(
        sizes, [size * epsilon for size in sizes], "C0-o", markersize=3, label="ε of the group"
    )
    deltas = [group_delta(epsilon, delta, size) for size in sizes]
    (second,) = right.plot(sizes, deltas, "C1--s", markersize=3, label="δ of the group")
    left.set(xlabel="units in the group", ylabel="ε")
    left.set_ylim(bottom=0)
    left.xaxis.get_major_locator().set_params(integer=True)
    right.set(ylabel="δ", yscale="log")
    left.set_title(f"What (ε = {epsilon:g}, δ = {delta:g}) is worth for a group", fontsize=10)
    left.legend(handles=[first, second], fontsize=9)
    left.grid(alpha=0.3)
