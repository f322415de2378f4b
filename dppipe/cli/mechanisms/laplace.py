"""One release with Laplace noise: epsilon is the sensitivity over the scale."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import DIGITS, Asked, Single
from dppipe.cli.mechanisms.groups import draw_pure_group, pure_group
from dppipe.cli.mechanisms.together import together
from dppipe.privacy.events.base import sensitivity
from dppipe.privacy.printing import shown
from dppipe.privacy.rounding import decimal_up, exact, fraction_up

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation


def answer_laplace(asked: Asked) -> Single:
    """Return the epsilon of a scale, or the scale for an epsilon (Dwork et al. 2006)."""
    relation: Relation = asked.relation or "zero_out"
    moved = Fraction(sensitivity(relation))
    if asked.noise_multiplier is None:
        loss = Fraction(exact(asked.epsilon or 0.0))
        noise = fraction_up(moved / loss, DIGITS)
    else:
        noise = asked.noise_multiplier
        loss = moved / Fraction(exact(noise))
    epsilon = fraction_up(loss, DIGITS)
    data: dict[str, Any] = {
        "mechanism": "laplace",
        "relation": relation,
        "epsilon": epsilon,
        "delta": 0.0,
        "noise_multiplier": noise,
        "certified": True,
    }
    facts = {
        "epsilon": f"{shown(epsilon)} with delta 0, certified and exact",
        "noise multiplier": f"{noise:g}: the scale over the bound on one record's L1 norm",
        "standard deviation": f"{decimal_up(exact(noise) * exact(2).sqrt(), 4):g}",
        "relation": relation,
    }
    if asked.delta is not None:
        from dp_accounting import LaplaceDpEvent

        facts["at a delta"], data["together"] = together(
            LaplaceDpEvent(noise), delta=asked.delta, relation=relation
        )
    if asked.group is not None:
        facts[f"group of {asked.group}"], data["group"] = pure_group(loss, asked.group)

    def draw(figure: Any) -> None:
        if asked.group is not None:
            draw_pure_group(figure, epsilon, asked.group, name=f"Laplace noise {noise:g}")
        else:
            _draw_profile(figure, epsilon, noise)

    sentence = f"Laplace noise {noise:g} costs epsilon {shown(epsilon)} with delta 0."
    return Single(sentence=sentence, facts=facts, data=data, draw=draw)


def _draw_profile(figure: Any, epsilon: float, noise: float) -> None:
    """Draw delta over epsilon, beside Gaussian noise of the same standard deviation."""
    import numpy as np

    from dppipe.privacy.gaussian import gaussian_delta

    axes = figure.subplots()
    near = epsilon * (1 - np.geomspace(1e-9, 0.1, 100))  # where the curve falls steeply
    at = np.sort(np.concatenate([np.linspace(0, 3 * epsilon, 300), near]))
    laplace = -np.expm1(np.minimum((at - epsilon) / 2, 0.0))
    same = math.sqrt(2) / epsilon
    seen = laplace > 0
    axes.plot(at[seen], laplace[seen], "C0-", label=f"Laplace, scale {noise:g}")
    axes.plot(at, gaussian_delta(at, same), "C1-", label="Gaussian, same standard deviation")
    axes.axvline(epsilon, color="C0", linestyle=":", label=f"δ = 0 from ε = {shown(epsilon)} on")
    axes.set(xlabel="ε", ylabel="δ", yscale="log", ylim=(1e-8, 1))
    axes.set_title("δ over ε of one release", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3)
