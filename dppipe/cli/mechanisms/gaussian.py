"""One release with Gaussian noise: the exact calibration, and the classic one beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.cli.mechanisms.asked import DIGITS, Asked, Single, at_delta, at_most, number
from dppipe.cli.mechanisms.groups import draw_gaussian_group, gaussian_group
from dppipe.privacy.events.base import sensitivity
from dppipe.privacy.printing import shown
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.textbook.classic_gaussian import ClassicNoise

COMPARED = (1e-6, 1e3)
"""The epsilons at which the classic noise is compared; beyond, float64 has too few digits."""


def answer_gaussian(asked: Asked) -> Single:
    """Return the exact epsilon or noise, and what the classic formula does at that epsilon."""
    from dppipe.privacy.textbook.classic_gaussian import classic_noise

    relation: Relation = asked.relation or "zero_out"
    moved = sensitivity(relation)
    delta = asked.delta or 0.0
    epsilon, noise = _solve(asked, moved=moved, delta=delta)
    comparable = COMPARED[0] <= epsilon <= COMPARED[1]
    classic = classic_noise(epsilon, delta) if comparable else None
    data: dict[str, Any] = {
        "mechanism": "gaussian",
        "relation": relation,
        "epsilon": number(epsilon),
        "delta": delta,
        "noise_multiplier": noise,
        "certified": True,
        "classic": None if classic is None else _classic_data(classic, moved),
    }
    facts = {
        "epsilon": f"{at_delta(epsilon, delta).removeprefix('epsilon ')}, certified and exact",
        "noise multiplier": f"{noise:g} (Balle and Wang 2018)",
        **({} if classic is None else _classic_facts(classic, moved)),
        "relation": relation,
    }
    if asked.group is not None:
        text, found = gaussian_group(noise / moved, asked.group, delta=delta)
        facts[f"group of {asked.group}"] = text
        data["group"] = found

    def draw(figure: Any) -> None:
        if asked.group is not None:
            draw_gaussian_group(figure, noise / moved, asked.group, delta=delta)
        else:
            _draw_noise(figure, epsilon, noise, delta=delta, moved=moved)

    sentence = f"Gaussian noise {at_most(noise)} costs {at_delta(epsilon, delta)}"
    if classic is not None:
        sentence += f"; the classic takes {at_most(moved * classic.noise)}"
        sentence += "" if classic.holds else ", too little"
    return Single(sentence=f"{sentence}.", facts=facts, data=data, draw=draw)


def _solve(asked: Asked, *, moved: float, delta: float) -> tuple[float, float]:
    """Return epsilon and the noise multiplier, of which one was given."""
    from dppipe.privacy.gaussian import gaussian_epsilon, gaussian_scale

    if asked.noise_multiplier is not None:
        return gaussian_epsilon(asked.noise_multiplier / moved, delta), asked.noise_multiplier
    epsilon = asked.epsilon or 0.0
    return epsilon, round_up(moved * gaussian_scale(epsilon, delta), DIGITS)


def _classic_data(classic: ClassicNoise, moved: float) -> dict[str, Any]:
    return {
        "noise_multiplier": number(moved * classic.noise),
        "proven": classic.proven,
        "proven_below_epsilon": 1.0,
        "holds": classic.holds,
        "true_epsilon": number(classic.true_epsilon),
        "true_delta": number(classic.true_delta),
        "waste": round(classic.waste, 6),
        "fails_from_epsilon": number(classic.fails_from),
    }


def _classic_facts(classic: ClassicNoise, moved: float) -> dict[str, str]:
    percent = f"{abs(classic.waste) * 100:.3g} %"
    excess = f"{percent} more than needed" if classic.waste >= 0 else f"{percent} too little"
    if classic.proven:
        validity = "valid here"
    elif classic.holds:
        validity = "enough noise here, but the formula has no proof"
    else:
        validity = "NOT VALID here"
    return {
        "classic noise": f"{number(moved * classic.noise):g}, {excess}: its true cost is "
        f"{at_delta(classic.true_epsilon, classic.delta)}",
        "classic formula": f"{validity}: proven below epsilon 1, and too little from epsilon "
        f"{shown(classic.fails_from)} on at this delta",
    }


def _draw_noise(figure: Any, epsilon: float, noise: float, *, delta: float, moved: float) -> None:
    """Draw both calibrations over epsilon, and the asked point."""
    import numpy as np

    from dppipe.privacy.gaussian import gaussian_scale
    from dppipe.privacy.textbook.classic_gaussian import classic_scale, failing_epsilon

    fails = failing_epsilon(delta)
    inside = min(max(epsilon, COMPARED[0]), COMPARED[1])
    low = min(0.05, inside / 2)
    high = max(4 * fails, 2 * inside)
    epsilons = np.geomspace(low, high, 120)
    classic = [moved * classic_scale(value, delta) for value in epsilons]
    axes = figure.subplots()
    proven = epsilons < 1
    axes.plot(epsilons[proven], np.asarray(classic)[proven], "C1-", label="classic, proven (ε < 1)")
    axes.plot(epsilons[~proven], np.asarray(classic)[~proven], "C1--", label="classic, no proof")
    exact = [moved * gaussian_scale(value, delta) for value in epsilons]
    axes.plot(epsilons, exact, "C0-", label="exact (Balle and Wang 2018)")
    axes.axvspan(fails, high, color="C3", alpha=0.12, label="classic noise is too little")
    if epsilon > 0:
        axes.plot([epsilon], [noise], "ko", label=f"asked: ε = {shown(epsilon)}, noise {noise:g}")
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel="noise multiplier", xlim=(low, high))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"Gaussian noise for ε at δ = {delta:g}", fontsize=10)
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3, which="both")
