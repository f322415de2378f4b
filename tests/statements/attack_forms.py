"""The forms of what an attacker can do.

The limits are computed anew, with dp_accounting's delta and formulas that are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special
from statements.facts import Facts, is_shown
from statements.forms import form, protects

TOLERANCE = 0.02
"""How far dp_accounting's limits are from these at most: its Renyi orders and grids are others."""
POINTS = 150


def claimed_deltas(facts: Facts, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return epsilons and the claim's delta at each; None where dp_accounting has no bound."""
    most = 2 * facts.summary["epsilon"] + 1
    epsilons = np.unique([*np.linspace(0.0, most, POINTS), facts.summary["epsilon"]])
    deltas = []
    for epsilon in epsilons:
        if facts.adaptive:
            delta = delta_from_one_point(float(epsilon), facts.budget, facts.delta)
        else:
            delta = facts.delta_at(float(epsilon))
        if delta is None:
            return None
        deltas.append(delta)
    return epsilons, np.array(deltas)


def delta_from_one_point(epsilon: float, known: float, delta: float) -> float:
    """Return the largest delta that is left by (known, delta)-differential privacy."""
    grown = math.exp(known)
    least = (1 - delta) / (1 + grown)  # an event of this probability may have 1 - least
    return max(delta, 1 - least - math.exp(epsilon) * least)


def reached(facts: Facts, chance: float) -> float | None:
    """Return what an event of some probability can have at most in the other world."""
    curve = facts.once("claimed_deltas", claimed_deltas)
    if curve is None:
        return None
    epsilons, deltas = curve
    up = np.exp(epsilons) * chance + deltas
    down = 1 - np.exp(-epsilons) * (1 - chance - deltas)
    return float(min(1.0, up.min(), down.min()))


def covering_mu(facts: Facts, name: str) -> float | None:
    """Return the largest mu of any (epsilon, delta) up to the claimed epsilon."""
    curve = facts.once("claimed_deltas", claimed_deltas)
    if curve is None:
        return None
    mus = []
    for epsilon, delta in zip(*curve, strict=True):
        if epsilon <= facts.summary["epsilon"] and delta > 0:
            mus.append(optimize.brentq(lambda mu: gaussian(mu, epsilon) - delta, 1e-6, 60))  # noqa: B023
    return max(mus)


def gaussian(mu: float, epsilon: float) -> float:
    upper = special.ndtr(mu / 2 - epsilon / mu)
    return float(upper - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu))


def agrees(value: float, again: float | None) -> bool:
    return again is None or again * (1 - TOLERANCE) <= value <= again * (1 + TOLERANCE)


def limits(facts: Facts) -> dict[str, Any]:
    return facts.plan["attack_limits"]


def is_share(text: str, value: float) -> bool:
    """Return whether a text is this share in per cent, rounded up to three digits."""
    return is_shown(text, float(f"{100 * value:.10g}"), digits=3)


def says_recognised(facts: Facts, alarms: str, found: str, guessed: str) -> bool:
    for limit in limits(facts)["membership"]:
        rate = limit["false_positive_rate"]
        most = limit["true_positive_rate"]
        if is_share(alarms, rate) and alarms == guessed and is_share(found, most):
            return agrees(most, reached(facts, rate))
    return False


def says_right(facts: Facts, unit: str, right: str) -> bool:
    advantage = limits(facts)["advantage"]
    return unit == facts.one and is_share(right, (1 + advantage) / 2)


def says_advantage(facts: Facts, shown: str) -> bool:
    curve = facts.once("claimed_deltas", claimed_deltas)
    again = None if curve is None else float(curve[1][0])
    advantage = limits(facts)["advantage"]
    return float(shown) == advantage and agrees(advantage, again)


def says_hit(number: int) -> Callable[..., bool]:
    """Return a check of one of the two guesses: the words before it, its prior and its limit."""

    def check(facts: Facts, *said: str) -> bool:
        *words, prior, hit = said
        limit = limits(facts)["reconstruction"][number]
        named = all(word == facts.one for word in words)
        right = is_share(prior, limit["prior"]) and is_share(hit, limit["probability"])
        return named and right and agrees(limit["probability"], reached(facts, limit["prior"]))

    return check


def says_mu(facts: Facts, delta: str, unit: str, mu: str) -> bool:
    stated = limits(facts)["mu"]
    named = (float(delta), unit, float(mu)) == (facts.delta, facts.one, stated)
    return named and agrees(stated, facts.once("covering_mu", covering_mu))


def replaced(facts: Facts) -> bool:
    return facts.protects and facts.relation == "replace_one"


def present(facts: Facts) -> bool:
    return facts.protects and facts.relation != "replace_one"


def names_units(facts: Facts, units: str) -> bool:
    return units == facts.units


form(r"## What an attacker can do", protects)
form(
    r"These limits hold as far as the claim does, for any attack on what was released, whatever "
    r"the attacker knows of the other (\w+)\.",
    protects,
    names_units,
)
form(
    r"They follow from the whole certified curve, not from epsilon alone\.",
    lambda f: f.protects and not f.adaptive,
)
form(
    r"They follow from epsilon and delta alone: no more is known of a run whose noise follows "
    r"released values\.",
    lambda f: f.protects and f.adaptive,
)
form(
    r"An attacker tries to find out whether a given (\w+) took part\.",
    present,
    lambda f, unit: unit == f.one,
)
form(
    r"A false alarm is a (\w+) that did not take part and is taken for one that did\.",
    present,
    lambda f, unit: unit == f.one,
)
form(r"An attacker tries to find out which of two given (\w+) took part\.", replaced, names_units)
form(r"A false alarm is the second one taken for the first\.", replaced)
form(r"The fewer false alarms it accepts, the fewer (\w+) it recognises:", protects, names_units)
form(r"\| false alarms \| recognised at most \| by guessing \|", protects)
form(
    r"\| (\S+) % \| (\S+) % \| (\S+) % \|",
    lambda f: 3 if f.protects else 0,
    says_recognised,
)
for likely, due in (("the", present), ("either", replaced)):
    form(
        rf"If {likely} (\w+) took part with a probability of 50 %, the attacker's answer is right "
        r"in at most (\S+) % of cases\.",
        due,
        says_right,
    )
form(r"A coin is right in 50 %\.", protects)
form(
    r"The share that it recognises exceeds the share of its false alarms by at most (\S+) \(the "
    r"advantage\)\.",
    protects,
    says_advantage,
)
for without, due in ((r"the (\w+) not taken", present), (r"another (\w+) taken", replaced)):
    form(
        r"A guess at a (\w+) \(a diagnosis, a whole row\) that would be right with a probability "
        rf"of (\S+) % had {without} part is right with at most (\S+) %\.",
        due,
        lambda f, unit, prior, other, hit: says_hit(0)(f, unit, other, prior, hit),
    )
form(
    r"One that would be right with (\S+) % is right with at most (\S+) %\.",
    protects,
    says_hit(1),
)
form(
    r"What the other (\w+) tell about this one is part of that probability\.",
    protects,
    names_units,
)
form(
    r"At every delta from (\S+) up the run protects at least as well as one release with Gaussian "
    r"noise of 1/mu times what a (\w+) can change, where mu = (\S+) \(Gaussian differential "
    r"privacy\)\.",
    protects,
    says_mu,
)
form(
    r"The limits are for one record: a person with several records has less protection\.",
    lambda f: f.protects and f.unit != "user",
)
