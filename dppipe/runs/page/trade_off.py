"""The trade-off of epsilon and delta: one run has an epsilon for every delta."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_delta
from dppipe.runs.page.markup.elements import EMPTY, beside, details, paragraph, section, table
from dppipe.runs.page.markup.plots import COLOURS, Plot, thinned
from dppipe.runs.page.markup.wording import one_in

if TYPE_CHECKING:
    from dppipe.privacy.tradeoff.profile import Profile
    from dppipe.runs.page.facts import PageFacts

_SMALLEST = 1e-12
_TIPS = 24
_SAID = (
    "Delta is a small slack that is added to every probability. One run has an epsilon for every "
    "delta: who wants a smaller delta has to state a larger epsilon."
)
FEW_POINTS = (
    "The plan keeps few points of this curve. Between them it is what these points imply, which is "
    "more than the run costs."
)


def trade_off(facts: PageFacts) -> Markup:
    """Return the delta of the whole plan at each epsilon; nothing where nothing is claimed."""
    profile = facts.profile
    if not facts.claims or profile is None:
        return EMPTY
    return section(
        "Epsilon against delta",
        beside(
            _picture(facts, profile),
            paragraph(_SAID),
            EMPTY if facts.has_whole_profile else paragraph(FEW_POINTS, style="small"),
            details("Epsilon at other deltas", _points(facts)),
        ),
        ident="trade-off",
    )


def _picture(facts: PageFacts, profile: Profile) -> Markup:
    plan = facts.plan
    epsilon = plan.epsilon or 0.0
    delta = plan.delta or 0.0
    epsilons, deltas = profile
    shown_part = deltas >= min(_SMALLEST, delta)
    epsilons = epsilons[shown_part]
    deltas = deltas[shown_part]
    plot = Plot("trade-off", x="epsilon", y="delta (logarithmic)", left=0.72)
    plot.decades(x=False)
    axes = plot.axes
    axes.plot(epsilons, deltas, color=COLOURS["spent"])
    axes.plot([epsilon], [delta], "o", markersize=6, color=COLOURS["budget"])
    claim = f"the claim: epsilon {shown(epsilon)}, delta {shown_delta(delta)}"
    right = epsilon > 0.6 * max(float(epsilons.max(initial=0.0)), epsilon)
    # Below the falling curve on its left, above it on its right.
    if right:
        plot.note(epsilon, delta, claim, colour="budget", off=(-7, -7), ha="right", va="top")
    else:
        plot.note(epsilon, delta, claim, colour="budget", off=(7, 5))
    for place in thinned(len(epsilons), most=_TIPS):
        at = f"epsilon {shown(float(epsilons[place]))}: delta {shown_delta(float(deltas[place]))}"
        plot.tip(float(epsilons[place]), float(deltas[place]), at)
    axes.set_xlim(0, max(float(epsilons.max(initial=0.0)), epsilon, 1e-3) * 1.04)
    return plot.svg(f"delta at each epsilon; {claim}")


def _points(facts: PageFacts) -> Markup:
    """Return the epsilons that the plan states at other deltas."""
    curve = facts.plan.whole_curve
    rows = []
    for delta, epsilon in zip(curve.get("deltas", ()), curve.get("epsilons", ()), strict=False):
        rows.append((shown_delta(delta), one_in(delta), shown(epsilon)))
    return table(rows, heading=("delta", "in words", "epsilon"), style="numbers-table")
