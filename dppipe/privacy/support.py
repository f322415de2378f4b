"""Which sampler, relation and accountant go together, as data: decided before any record is read.

`verdict` answers for one combination: certified, estimate or refused, with why and what to take
instead. The accountants refuse by themselves what they can't bound; a test holds the two together.
Nothing heavy is imported here, so that `dppipe validate` can ask at once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dppipe.privacy.budget import Relation

Status = Literal["certified", "estimate", "refused"]

ACCOUNTANTS = ("pld", "rdp", "tcdp", "zcdp", "gdp", "advanced", "basic")
SAMPLERS = (
    "poisson",
    "truncated_poisson",
    "without_replacement",
    "with_replacement",
    "shuffle",
    "balls_in_bins",
    "full_batch",
    "user",
)
_PRESENCE: tuple[Relation, ...] = ("zero_out", "add_remove")
_ALL: tuple[Relation, ...] = ("zero_out", "add_remove", "replace_one")


@dataclass(frozen=True)
class Verdict:
    """Whether a combination has a proof, why, and what to take instead where it hasn't."""

    status: Status
    why: str
    instead: str = ""


@dataclass(frozen=True)
class _Rule:
    """The relations under which a sampler's event is right, and each accountant's status."""

    relations: tuple[Relation, ...]
    certified: dict[str, tuple[Relation, ...]]
    """The accountants with a proven bound, and the relations it holds under."""
    estimate: dict[str, tuple[Relation, ...]]
    filters: dict[str, tuple[Relation, ...]]
    """The accountants with a filter, which a schedule that adapts to released values needs."""
    why_relation: str
    why: str
    """Why a certified accountant is right."""


_POISSON = _Rule(
    relations=_ALL,
    certified={
        "pld": _ALL,
        "rdp": _PRESENCE,
        "tcdp": _PRESENCE,
        "basic": _PRESENCE,
        "advanced": _PRESENCE,
    },
    estimate={"gdp": _PRESENCE},
    filters={"rdp": _PRESENCE, "tcdp": _PRESENCE, "advanced": _PRESENCE},
    why_relation="",
    why="each record is in each batch independently, with one probability",
)
_WHOLE = dict.fromkeys(ACCOUNTANTS, _ALL)

_RULES: dict[str, _Rule] = {
    "poisson": _POISSON,
    "user": _POISSON,
    "truncated_poisson": _Rule(
        relations=("zero_out", "replace_one"),
        certified={"pld": ("zero_out", "replace_one")},
        estimate={},
        filters={},
        why_relation=(
            "the bound on the cut-off depends on the number of records, which add_remove keeps "
            "secret"
        ),
        why="the rare batch that is cut off is in the event",
    ),
    "without_replacement": _Rule(
        relations=("replace_one",),
        certified={"pld": ("replace_one",), "rdp": ("replace_one",)},
        estimate={},
        filters={},
        why_relation=(
            "a batch of fixed size shows that a record was replaced, not that one is missing"
        ),
        why="a batch is a uniform subset of fixed size",
    ),
    "with_replacement": _Rule(
        relations=("replace_one",),
        certified={"basic": ("replace_one",), "advanced": ("replace_one",)},
        estimate={},
        filters={},
        why_relation=(
            "a batch of fixed size shows that a record was replaced, not that one is missing"
        ),
        why="one step has a theorem (Balle, Barthe and Gaboardi 2018), which adds up loosely",
    ),
    "shuffle": _Rule(
        relations=("zero_out", "replace_one"),
        certified=dict.fromkeys(ACCOUNTANTS, ("zero_out", "replace_one")),
        estimate={},
        filters={},
        why_relation=(
            "the number of steps in an epoch shows the number of records, which add_remove keeps "
            "secret"
        ),
        why=(
            "each record is used once an epoch, so an epoch costs one release; order gives no "
            "amplification"
        ),
    ),
    "balls_in_bins": _Rule(
        relations=("zero_out",),
        certified={"rdp": ("zero_out",)},
        estimate={"pld": ("zero_out",)},
        filters={},
        why_relation="its bound is proven for a record whose gradient becomes zero",
        why="each record falls in one random batch of an epoch",
    ),
    "full_batch": _Rule(
        relations=_ALL,
        certified=_WHOLE,
        estimate={},
        filters=dict.fromkeys(("zcdp", "gdp", "rdp", "tcdp", "advanced"), _ALL),
        why_relation="",
        why="every record is in every step, so nothing is assumed of the sampling",
    ),
}


_WHOLE_LAPLACE = tuple(name for name in ACCOUNTANTS if name != "gdp")
_LAPLACE = {
    "poisson": ("pld", "basic", "advanced"),
    "user": ("pld", "basic", "advanced"),
    "shuffle": _WHOLE_LAPLACE,
    "full_batch": _WHOLE_LAPLACE,
}
"""The accountants with a proven bound for Laplace noise, by sampler."""


def relations(sampler: str) -> tuple[Relation, ...]:
    """Return the relations that a sampler's event is right under, the usual one first."""
    rule = _RULES.get(sampler)
    return rule.relations if rule else ()


def verdict(
    *,
    sampler: str,
    relation: str,
    accountant: str,
    adaptive: bool = False,
    mechanism: str = "gaussian",
) -> Verdict:
    """Decide whether an accountant has a proof for a sampler under a relation.

    Where it hasn't, the verdict says what to change at least.

    Args:
        sampler: The kind of sampler that will run.
        relation: What neighbouring datasets differ in.
        accountant: The kind of accountant.
        adaptive: Whether noise or rate follow released values, so that a filter is needed instead
            of a plan.
        mechanism: The distribution of the noise.
    """
    if sampler not in _RULES:
        return Verdict(
            "refused",
            f"no proof is known for the sampler {sampler!r}",
            f"sampler: one of {', '.join(SAMPLERS)}",
        )
    asked = _Combination(relation, adaptive, mechanism, accountant)
    status, why = _judged(_RULES[sampler], sampler, asked)
    if status == "certified":
        return Verdict(status, why)
    return Verdict(status, why, _least_change(sampler, asked))


class _Combination(NamedTuple):
    """What can be changed about a run whose sampler stays."""

    relation: str
    adaptive: bool
    mechanism: str
    accountant: str


def _judged(rule: _Rule, sampler: str, asked: _Combination) -> tuple[Status, str]:
    relation, adaptive, mechanism, accountant = asked
    if accountant not in ACCOUNTANTS:
        return "refused", f"no accountant is named {accountant!r}"
    if relation not in rule.relations:
        if relation in _ALL and rule.why_relation:
            return "refused", rule.why_relation
        return "refused", f"no relation is named {relation!r}"
    if mechanism == "laplace":
        return _judged_laplace(rule, sampler, asked)
    if adaptive:
        return _judged_adaptive(rule, sampler, asked)
    if relation in rule.certified.get(accountant, ()):
        return "certified", rule.why
    if relation in rule.estimate.get(accountant, ()):
        approximation = "a central-limit approximation"
        if sampler == "balls_in_bins":
            approximation = "an average of random draws"
        return "estimate", f"{approximation}, which can lie below the truth"
    if accountant == "zcdp" and sampler in ("poisson", "user"):
        return "refused", "zcdp is not amplified by sampling"
    if accountant == "gdp" and sampler in ("poisson", "user"):
        return "refused", f"no bound or estimate under {relation}"
    return "refused", f"{accountant} has no proven bound for sampler {sampler} under {relation}"


def _judged_laplace(rule: _Rule, sampler: str, asked: _Combination) -> tuple[Status, str]:
    relation = asked.relation
    accountant = asked.accountant
    if sampler not in _LAPLACE:
        return "refused", f"no bound is known for Laplace noise with sampler {sampler}"
    if asked.adaptive:
        return "refused", "no filter is proven for Laplace noise"
    if sampler in ("poisson", "user") and relation == "replace_one":
        return (
            "refused",
            f"no bound is known for Laplace noise with sampler {sampler} under {relation}",
        )
    if accountant in _LAPLACE[sampler] and relation in rule.certified.get(accountant, ()):
        return "certified", rule.why
    return (
        "refused",
        f"{accountant} has no proven bound for Laplace noise with sampler {sampler} under "
        f"{relation}",
    )


def _judged_adaptive(rule: _Rule, sampler: str, asked: _Combination) -> tuple[Status, str]:
    if asked.relation in rule.filters.get(asked.accountant, ()):
        return "certified", "its filter adds up one number, which holds for adaptive schedules too"
    if not any(asked.relation in allowed for allowed in rule.filters.values()):
        return "refused", f"no filter is proven for sampler {sampler} under {asked.relation}"
    return (
        "refused",
        f"{asked.accountant} has no filter that is proven where the noise follows released values",
    )


def _least_change(sampler: str, asked: _Combination) -> str:
    """Name the least that has to be changed for a proof.

    It is the accountant alone, if that is enough, and never the sampler.
    """
    rule = _RULES[sampler]
    choices: list[list[str]] = []
    for mechanism, adaptive, relation in itertools.product(
        dict.fromkeys((asked.mechanism, "gaussian")),
        dict.fromkeys((asked.adaptive, False)),
        dict.fromkeys((asked.relation, *rule.relations)),
    ):
        working: list[str] = []
        for name in ACCOUNTANTS:
            case = _Combination(relation, adaptive, mechanism, name)
            status, _ = _judged(rule, sampler, case)
            if status == "certified":
                working.append(name)
        if not working:
            continue
        changes: list[str] = []
        if relation != asked.relation:
            changes.append(f"relation: {relation}")
        if adaptive != asked.adaptive:
            changes.append("a noise schedule that is fixed before the run")
        if mechanism != asked.mechanism:
            changes.append(f"mechanism: {mechanism}")
        if asked.accountant not in working:
            changes.append(f"accountant: {_either(working)}")
        choices.append(changes)
    shortest = min(choices, key=len)
    return " and ".join(shortest)


def _either(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}"
