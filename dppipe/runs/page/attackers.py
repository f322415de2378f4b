"""The attacker's view: what any attack can reach, and what an audit of the run has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from dppipe.privacy.printing import shown, shown_share
from dppipe.runs.page.markup.elements import (
    EMPTY,
    beside,
    box,
    bullets,
    joined,
    paragraph,
    section,
    table,
)
from dppipe.runs.page.markup.plots import COLOURS, Plot
from dppipe.runs.page.trade_off import FEW_POINTS
from dppipe.runs.statement.attacks import (
    HEADING,
    attack_introduction,
    attack_sentences,
    gaussian_sentences,
    recognition_rows,
    stated_limits,
)
from dppipe.runs.statement.audit_findings import rounded_down

if TYPE_CHECKING:
    from dppipe.privacy.tradeoff.blow_up import BlowUp
    from dppipe.runs.page.facts import PageFacts

_LEAST = 1e-4
_RATES = (1e-4, 1e-3, 1e-2, 1e-1)
_ROC = (
    "The grey area is impossible for any attack. The dashed line is guessing. Both axes are "
    "logarithmic: each mark is ten times the one before. Attacks that anybody has tried reach less "
    "than the limit."
)
_AUDITED = (
    "An audit is an experiment on the run itself, made by dppipe too. What it finds is a lower "
    "bound: it can contradict the claim, but never proves it. It could have shown more only if "
    "more of its guesses had been right."
)
_REJECTED = "The audit CONTRADICTS the claim. Don't rely on this epsilon."


def attackers(facts: PageFacts) -> Markup:
    """Return the limits of attacks, and the results of an audit where there is one."""
    limits = facts.blow_up
    parts = [] if limits is None else [_limits(facts, limits)]
    return section("What an attacker can do", *parts, _audit(facts), ident="attackers")


def _limits(facts: PageFacts, limits: BlowUp) -> Markup:
    said = [paragraph(_ROC)]
    if not facts.has_whole_profile:
        said.append(paragraph(FEW_POINTS, style="small"))
    more = EMPTY
    statement = facts.statement
    stated = None if statement is None else stated_limits(statement)
    if stated is not None:
        plan = facts.plan
        said += [paragraph(sentence) for sentence in attack_introduction(plan)]
        said.append(table(recognition_rows(stated), heading=HEADING, style="numbers-table"))
        formal = set(gaussian_sentences(plan, stated))
        said_more = attack_sentences(plan, stated)
        more = bullets(sentence for sentence in said_more if sentence not in formal)
    return joined([beside(_picture(facts, limits), *said), more])


def _picture(facts: PageFacts, limits: BlowUp) -> Markup:
    """Draw the largest true-positive rate at each false-positive rate."""
    rates = np.geomspace(_LEAST, 1.0, 120)
    reached = limits(rates)
    plot = Plot(
        "roc", x="false alarms (logarithmic)", y="recognised (logarithmic)", height=3.5, left=0.7
    )
    plot.decades()
    axes = plot.axes
    axes.fill_between(rates, reached, 1.0, color=COLOURS["grid"], linewidth=0)
    axes.plot(rates, reached, color=COLOURS["spent"])
    axes.plot(rates, rates, color=COLOURS["muted"], linestyle=(0, (4, 3)), linewidth=1.2)
    plot.note(1.3e-4, 0.55, "impossible for any attack", colour="muted")
    plot.note(2.2e-3, 1.1e-3, "guessing", colour="muted", rotation=0)
    ticks = [*_RATES, 1.0]
    names = [f"{100 * rate:g} %" for rate in ticks]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.set_xlim(_LEAST, 1.0)
    axes.set_ylim(_LEAST, 1.0)
    for rate in _RATES:
        most = facts.recognised(rate)
        axes.plot([rate], [most], "o", markersize=4, color=COLOURS["spent"], clip_on=False)
        text = f"{shown_share(rate)} false alarms: at most {shown_share(most)} recognised"
        plot.tip(rate, most, text)
    at_one = shown_share(facts.recognised(0.01))
    return plot.svg(f"largest share recognised at each rate of false alarms; {at_one} at 1 %")


def _audit(facts: PageFacts) -> Markup:
    statement = facts.statement
    if statement is None or statement.audit is None:
        return EMPTY
    rejected = bool(facts.audit and facts.audit.get("rejected"))
    verdict = paragraph(_REJECTED, style="alarm") if rejected else EMPTY
    return box(
        "What an audit of this run found",
        verdict,
        _bounds(facts),
        paragraph(f"The audit shows {statement.audit}."),
        paragraph(_AUDITED),
        style="box audit",
    )


def _bounds(facts: PageFacts) -> Markup:
    """Draw what the audit shows at least, what it could have shown, and the claim."""
    audit = facts.audit or {}
    epsilon = facts.plan.epsilon
    numbers = [audit.get("epsilon_lower"), audit.get("ceiling")]
    if epsilon is None or not all(isinstance(number, int | float) for number in numbers):
        return EMPTY
    lower, ceiling = (float(number) for number in numbers if number is not None)
    plot = Plot("audit", x="epsilon", y="", height=1.5, left=0.2)
    axes = plot.axes
    right = 1.15 * max(epsilon, ceiling, lower, 1e-3)
    axes.axvspan(epsilon, right, color=COLOURS["grid"])
    axes.axvline(epsilon, color=COLOURS["budget"], linestyle=(0, (6, 3)))
    axes.plot([lower, epsilon], [0, 0], color=COLOURS["muted"], linewidth=1.2)
    axes.plot([lower], [0], "o", color=COLOURS["spent"], clip_on=False)
    axes.plot([ceiling], [0], "|", markersize=16, color=COLOURS["planned"])
    plot.note(lower, 0.35, "at least", ha="center")
    plot.note(epsilon, 0.75, f"claim: at most {shown(epsilon)} ", colour="budget", ha="right")
    plot.note(ceiling, -0.85, "could show", colour="planned", ha="center")
    plot.tip(lower, 0, f"the audit shows at least {rounded_down(lower)}")
    axes.set_yticks([])
    axes.set_xlim(0, right)
    axes.set_ylim(-1, 1.2)
    return plot.svg(
        f"the audit shows epsilon {rounded_down(lower)} at least; {shown(epsilon)} is claimed"
    )
