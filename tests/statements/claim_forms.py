"""The forms of the claim, of its table, and of how it compares."""

from __future__ import annotations

import math
from typing import Any

from statements.facts import Facts, is_minute, is_near, is_shown
from statements.forms import always, form, private, protects

# The claim.

DIFFERENCE = {
    "zero_out": "one {unit}'s contribution being there or being nothing, where the number of "
    "{units} is public",
    "add_remove": "one {unit} being in the data or not, where even the number of {units} is secret",
    "replace_one": "one {unit} being replaced by any other, where the number of {units} is public",
}
WITHOUT = {
    "zero_out": "contributed nothing",
    "add_remove": "not been in the data",
    "replace_one": "been another",
}


def says_claim(facts: Facts, epsilon: str, delta: str, difference: str) -> bool:
    claimed = facts.summary["epsilon"]
    named = DIFFERENCE[facts.relation].format(unit=facts.unit, units=facts.units)
    shown = is_shown(epsilon, claimed) and is_near(claimed, facts.claim)
    return shown and float(delta) == facts.delta and difference == named


def says_factor(facts: Facts, times: str, unit: str, without: str, delta: str) -> bool:
    right = is_shown(times, math.exp(facts.summary["epsilon"]), digits=3)
    named = (unit, without) == (facts.unit, WITHOUT[facts.relation])
    return right and named and float(delta) == facts.delta


form(r"# Privacy of (.+)", always, lambda f, name: name == (f.config or {"name": "run"})["name"])
form(
    r"What is released is \((\S+), (\S+)\)-differentially private with respect to (.+)\.",
    protects,
    says_claim,
)
form(
    r"Whatever is concluded from it is at most (\S+) times as probable as it would be had any one "
    r"(\w+) "
    r"(.+), plus a probability of (\S+)\.",
    protects,
    says_factor,
)
form(
    r"NOT PRIVATE: this run has no privacy budget, and its model may reveal any record that it "
    r"was trained on\.",
    lambda f: not f.private,
)
form(
    r"Nothing about it can be promised to the people behind the records\.", lambda f: not f.private
)
form(
    r"NO CLAIM: this run ended by an error, and that it did may depend on a record\.",
    lambda f: f.failed,
)
form(r"Its checkpoints are not private: don't release them\.", lambda f: f.failed)
form(r"What it was charged stays spent\.", lambda f: f.failed)
form(
    r"NO CLAIM: an earlier version of dppipe split the records by position, and under add_remove "
    r"one "
    r"record then decides where others go\.",
    lambda f: f.split_by_position,
)
form(r"The epsilon of its plan doesn't cover that\.", lambda f: f.split_by_position)
form(
    r"Train again: `dppipe run` splits by a hash of each record\.",
    lambda f: f.split_by_position,
)
form(
    r"This run gives no protection: seeded, so that whoever knows the seed can take the noise "
    r"away again\.",
    lambda f: f.seeded,
)
form(
    r"With fresh randomness the same plan would be \((\S+), (\S+)\)-differentially private with "
    r"respect to (.+)\.",
    lambda f: f.seeded,
    says_claim,
)

# The table of the claim.

ACCOUNTANT = r"\| accountant \| (\w+), dppipe's own code \(version (\S+)\)"


def says_version(facts: Facts, accountant: str, version: str) -> bool:
    return (accountant, version) == (facts.accountant, facts.summary["versions"]["dppipe"])


def by_dp_accounting(facts: Facts) -> bool:
    return facts.private and (facts.accountant, facts.sampler) == ("rdp", "without_replacement")


form(r"## The claim", private)
form(r"## The run", lambda f: not f.private)
form(r"\| \| \|", always)
form(
    r"\| protected unit \| one (\w+): one training record \|",
    lambda f: f.private and f.unit != "user",
    lambda f, unit: unit == f.unit,
)
form(
    r"\| protected unit \| one user: all training records with one value of `(\w+)` \|",
    lambda f: f.private and f.unit == "user" and f.user is not None,
    lambda f, user: user == f.user,
)
form(
    r"\| protected unit \| one user: all training records of that user \|",
    lambda f: f.private and f.unit == "user" and f.user is None,
    lambda f: f.config is not None and f.config["data"]["kind"] == "synthetic",
)
form(
    r"\| records of a user \| at most (\d+) in a step \|",
    lambda f: f.private and f.sampler == "user",
    lambda f, count: int(count) == f.max_records_per_user,
)
form(r"\| neighbouring relation \| (\w+) \|", private, lambda f, relation: relation == f.relation)


def says_epsilon(facts: Facts, epsilon: str) -> bool:
    claimed = facts.summary["epsilon"]
    return is_shown(epsilon, claimed) and is_near(claimed, facts.claim)


def says_spent(facts: Facts, epsilon: str) -> bool:
    """A plan knows epsilon at some of its steps; between them it names the next one's."""
    spent = facts.summary["epsilon_spent"]
    return (
        is_shown(epsilon, spent) and facts.spent is not None and spent >= facts.spent * (1 - 2e-3)
    )


form(r"\| epsilon \| (\S+) \(rounded up\) \|", protects, says_epsilon)
form(
    r"\| epsilon of the plan \| (\S+) \(rounded up\) \|",
    lambda f: f.private and not f.protects,
    says_epsilon,
)
form(
    r"\| spent by the executed steps \| (\S+) \|",
    lambda f: f.private and (f.stopped or f.failed),
    says_spent,
)
form(r"\| delta \| (\d\S*) \|", private, lambda f, delta: float(delta) == f.delta)
form(r"\| budget \| epsilon (\S+) \|", private, lambda f, budget: float(budget) == f.budget)
form(
    r"\| budget scope \| (\S+) \|",
    lambda f: "scope" in f.known,
    lambda f, name: name == f.option("budget", "scope"),
)
form(ACCOUNTANT + r" \|", lambda f: f.private and not by_dp_accounting(f), says_version)
form(
    ACCOUNTANT + r", with Renyi divergences by dp-accounting (\S+) \|",
    by_dp_accounting,
    lambda f, name, version, other: (
        says_version(f, name, version) and other == f.summary["versions"]["dp-accounting"]
    ),
)
form(r"\| status \| certified: a proven upper bound \|", protects)
form(r"\| status \| NO CLAIM: the run failed \|", lambda f: f.failed)
form(r"\| status \| NO CLAIM: sampler and noise were seeded \|", lambda f: f.seeded)
form(r"\| status \| NO CLAIM: the split is not covered \|", lambda f: f.split_by_position)

# The table of the run.


def says_status(facts: Facts, said: str, early: str | None) -> bool:
    """A run has its final weights where, and only where, its plan has ended it."""
    by_plan = said in ("completed", "budget exhausted")
    if bool(early) != (facts.stopped_early and len(facts.steps) < (facts.asked_steps or 0)):
        return False
    kept = by_plan == ("checkpoints/final.ckpt" in facts.files)
    return kept and said.replace(" ", "_") == facts.status


def says_begun(facts: Facts, minute: str) -> bool:
    right = (
        facts.made.began.strftime("%Y-%m-%d %H:%M")
        <= minute
        <= facts.made.ended.strftime("%Y-%m-%d %H:%M")
    )
    return (
        right
        and is_minute(minute, facts.origin["begun"])
        and is_minute(minute, facts.summary["begun"])
    )


def says_ended(facts: Facts, minute: str) -> bool:
    right = (
        facts.made.began.strftime("%Y-%m-%d %H:%M")
        <= minute
        <= facts.made.ended.strftime("%Y-%m-%d %H:%M")
    )
    return right and is_minute(minute, facts.summary["ended"])


def says_data(facts: Facts, kind: str, file: str | None) -> bool:
    if facts.config is None:
        return (kind, file) == (facts.known["dataset"], None)
    return (kind, file) == (facts.config["data"]["kind"], facts.config["data"].get("path"))


MOMENT = r"(\d{4}-\d\d-\d\d \d\d:\d\d) UTC"
form(r"\| the run \| ([a-z ]+)(: a callback stopped it early)? \|", always, says_status)
form(rf"\| begun \| {MOMENT} \|", always, says_begun)
form(rf"\| ended \| {MOMENT} \|", always, says_ended)
form(
    r"\| resumed \| (once|\d+ times) \|",
    lambda f: f.starts > 1,
    lambda f, times: f.starts - 1 == (1 if times == "once" else int(times.split()[0])),
)
form(r"\| data \| ([\w.]+)(?:: `(.+)`)? \|", always, says_data)
form(
    r"\| training (\w+)( \(public\))? \| (\d+) \|",
    lambda f: not f.private or f.relation != "add_remove",
    lambda f, units, public, count: (
        (units, bool(public), int(count)) == (f.units, f.private, f.training_units)
    ),
)

# How it compares.


def same_under_both(facts: Facts) -> bool:
    """These samplers flip a coin for each unit, or take all; averages need slots."""
    return facts.sampler in ("poisson", "user") and not facts.averages


def says_same(facts: Facts, name: str) -> bool:
    """Compute epsilon under both relations, by this package's own accountant."""
    from dppipe.privacy.charges import charged_steps
    from dppipe.privacy.ledger_reading import read_ledger
    from dppipe.spec.kinds.registry import Registry

    charges = read_ledger(
        facts.path / "ledger.jsonl", plan=(facts.path / "plan.json").read_bytes()
    ).charges
    accountant: Any = Registry().load("accountant", facts.accountant)
    costs = []
    for relation in ("zero_out", "add_remove"):
        composed = accountant().compose(charged_steps(charges), relation=relation)
        costs.append(composed.epsilon(facts.delta))
    return costs[0] == costs[1]


def zero_out(facts: Facts) -> bool:
    return facts.protects and facts.relation == "zero_out"


form(
    r"Abadi et al\. \(2016\) measure DP-SGD under add_remove: one record more or less in the "
    r"data\.",
    protects,
)
form(
    r"With the same sampler, sample rate, noise multiplier and number of steps, epsilon is the "
    r"same number "
    r"under add_remove and zero_out\.",
    lambda f: zero_out(f) and same_under_both(f),
    lambda f: f.once("same", says_same),
)
form(
    r"They differ in what is public: zero_out takes the number of (\w+) as public, add_remove "
    r"doesn't\.",
    lambda f: zero_out(f) and same_under_both(f),
    lambda f, units: units == f.units,
)
form(
    r"For this sampler, clipper and accountant dppipe has no proof under add_remove\.",
    lambda f: zero_out(f) and not same_under_both(f),
)
form(r"That is the relation here\.", lambda f: f.protects and f.relation == "add_remove")
form(
    r"Under replace_one one (\w+) can move a step's sum by twice the bound\.",
    lambda f: f.protects and f.relation == "replace_one",
    lambda f, unit: unit == f.unit,
)
form(r"Epsilon here counts that\.", lambda f: f.protects and f.relation == "replace_one")
form(
    r"Under add_remove and zero_out it can move the sum by the bound alone\.",
    lambda f: f.protects and f.relation == "replace_one" and not f.averages,
)
