"""The forms of what an audit of the run itself found, worked out again from coins and scores."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from scipy import special, stats
from statements.facts import Facts
from statements.forms import form


def audited(facts: Facts) -> bool:
    return "audit/plan.json" in facts.files


def audit_file(facts: Facts, name: str) -> Any:
    return json.loads((facts.path / name).read_text())


def p_value(epsilon: float, *, canaries: int, made: int, right: int, delta: float) -> float:
    """The p-value of (epsilon, delta), term by term."""
    chance = special.expit(epsilon)
    tail = stats.binom.sf(right - 1, made, chance)
    most = 0.0
    for fewer in range(1, right + 1):
        between = sum(stats.binom.pmf(np.arange(right - fewer, right), made, chance))
        most = max(most, between / fewer)
    return float(tail + 2 * canaries * delta * most)


def is_bound(said: str, **counts: Any) -> bool:
    """Return whether a number is the largest of three digits that the counts contradict."""
    epsilon = float(said)
    above = p_value(epsilon + 0.001, **counts) >= 0.05
    return above and (epsilon == 0 or p_value(epsilon, **counts) < 0.05)


def right_guesses(facts: Facts) -> int:
    plan = audit_file(facts, "audit/plan.json")
    coins = audit_file(facts, "audit/coins.json")["coins"]
    scores = audit_file(facts, "audit/scores.json")["scores"]
    ranked = sorted(range(len(scores)), key=lambda canary: scores[canary])
    ins = ranked[len(ranked) - plan["guessed_in"] :]
    outs = ranked[: plan["guessed_out"]]
    return sum(coins[i] == "1" for i in ins) + sum(coins[i] == "0" for i in outs)


def says_audit(
    facts: Facts,
    least: str,
    confidence: str,
    made: str,
    number: str,
    canaries: str,
    most: str,
    p: str,
    verdict: str,
) -> bool:
    plan = audit_file(facts, "audit/plan.json")
    guesses = plan["guessed_in"] + plan["guessed_out"]
    counts = {"canaries": plan["number"], "made": guesses, "delta": facts.delta}
    named = (int(made), int(number), canaries) == (guesses, plan["number"], plan["canaries"])
    found = audit_file(facts, "audit.json")["p_value"]
    last_digit = 10.0 ** (math.floor(math.log10(found)) - 1)
    rounded = -1e-8 * found <= float(p) - found < last_digit
    judged = verdict == ("CLAIM REJECTED" if found < 0.05 else "no contradiction")
    bounds = is_bound(least, right=right_guesses(facts), **counts)
    ceilings = is_bound(most, right=guesses, **counts)
    return all([named, confidence == "95", bounds, ceilings, rounded, judged])


form(
    r"\| audit \| epsilon at least (\S+) with (\d+) % confidence, by (\d+) guesses on (\d+) "
    r"(reserved|inputs) canaries, which could show at most (\S+); the run's own curve has p = "
    r"(\S+): (no contradiction|CLAIM REJECTED) \(a lower bound, not a proof\) \|",
    audited,
    says_audit,
)
form(
    r"\| kind \| audit: trained on made-up records in the shapes of the data: none was read; "
    r"trained with (\d+) made-up canaries, about half of them in, all mislabelled; the model is "
    r"not for use \|",
    lambda f: audited(f) and audit_file(f, "audit/plan.json")["canaries"] == "inputs",
    lambda f, number: (
        audit_file(f, "audit/plan.json")["made_up"]
        and int(number) == len(audit_file(f, "audit/coins.json")["coins"])
    ),
)
