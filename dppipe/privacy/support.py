"""Which sampler, relation and accountant go together: decided before any record is read.

`verdict` answers for one combination: certified, estimate or refused, with why and what to take
instead. Nothing is listed here: a sampler's class declares the event that it makes and the
relations under which that is right, and the event's file declares which accountants bound it
(`proofs.py`). Accountants refuse by themselves what isn't declared; a test holds the two together.
Nothing heavy is imported here, so that `dppipe validate` can ask at once.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, find_rule
from dppipe.privacy.proofs import ACCOUNTANTS, EVERY_RELATION, Proof
from dppipe.privacy.sampler_files import sampler_kinds, sampler_proof

if TYPE_CHECKING:
    SAMPLERS: tuple[str, ...]

__all__ = ["ACCOUNTANTS", "SAMPLERS", "Status", "Verdict", "relations", "verdict"]

Status = Literal["certified", "estimate", "refused"]


@dataclass(frozen=True)
class Verdict:
    """Whether a combination has a proof, why, and what to take instead where it hasn't."""

    status: Status
    why: str
    instead: str = ""


def __getattr__(name: str) -> Any:
    if name == "SAMPLERS":
        return sampler_kinds()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def relations(sampler: str) -> tuple[Relation, ...]:
    """Return the relations that a sampler's event is right under, the usual one first."""
    proof = sampler_proof(sampler)
    return proof.relations if proof else ()


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
    if sampler_proof(sampler) is None:
        return Verdict(
            "refused",
            f"no proof is known for the sampler {sampler!r}",
            f"sampler: one of {', '.join(sampler_kinds())}",
        )
    asked = _Combination(relation, adaptive, mechanism, accountant)
    status, why = _judged(sampler, asked)
    if status == "certified":
        return Verdict(status, why)
    return Verdict(status, why, _least_change(sampler, asked))


class _Combination(NamedTuple):
    """What can be changed about a run whose sampler stays."""

    relation: str
    adaptive: bool
    mechanism: str
    accountant: str


class _Support(NamedTuple):
    """What is proven of the event that a sampler makes of a mechanism."""

    rule: EventRule
    proofs: tuple[Proof, ...]

    def status(self, accountant: str, relation: str) -> Proof | None:
        """Return the proof or the estimate of an accountant under a relation."""
        for proof in self.proofs:
            if accountant in proof.accountants and relation in proof.relations:
                return proof
        return None

    def certifying(self, relation: str) -> list[str]:
        """Return the accountants with a proof under a relation."""
        kinds: list[str] = []
        for kind in ACCOUNTANTS:
            proof = self.status(kind, relation)
            if proof is not None and not proof.estimate:
                kinds.append(kind)
        return kinds

    def filtering(self, relation: str) -> list[str]:
        """Return the accountants with a proven filter under a relation."""
        kinds: list[str] = []
        for proof in self.proofs:
            if relation in proof.relations:
                kinds += proof.filters
        return kinds


@functools.cache
def _support(sampler: str, mechanism: str) -> _Support | None:
    """Return what is proven of a mechanism with a sampler; None where there is no such noise.

    The event of the noise `gaussian` is `GaussianDpEvent`, and so on.
    """
    declared = sampler_proof(sampler)
    noise = find_rule(f"{mechanism.capitalize()}DpEvent")
    if declared is None or noise is None or noise.release is None:
        return None
    if not declared.event:
        return _Support(noise, noise.proofs)
    around = find_rule(declared.event)
    if around is None:
        return None
    if around.noise:
        return _Support(around, around.proofs if around.noise == noise.name else ())
    return _Support(around, tuple(p for p in around.proofs if p.inside == noise.name))


def _judged(sampler: str, asked: _Combination) -> tuple[Status, str]:
    declared = sampler_proof(sampler)
    found = _support(sampler, asked.mechanism)
    if asked.accountant not in ACCOUNTANTS:
        return "refused", f"no accountant is named {asked.accountant!r}"
    if declared is None or asked.relation not in declared.relations:
        if declared is not None and asked.relation in EVERY_RELATION and declared.why_not:
            return "refused", declared.why_not
        return "refused", f"no relation is named {asked.relation!r}"
    if found is None:
        return "refused", f"no mechanism is named {asked.mechanism!r}"
    with_noise = ""
    if asked.mechanism != "gaussian":
        with_noise = f"{asked.mechanism.capitalize()} noise with "
        unbounded = _without_any_bound(found, sampler, asked, with_noise)
        if unbounded:
            return "refused", unbounded
    if asked.adaptive:
        return _judged_adaptive(found if declared.filters else None, sampler, asked)
    proof = found.status(asked.accountant, asked.relation)
    if proof is None:
        return "refused", _lacking(found, sampler, asked, with_noise)
    if proof.estimate:
        return "estimate", f"{proof.source}, which can lie below the truth"
    return "certified", declared.why


def _without_any_bound(found: _Support, sampler: str, asked: _Combination, with_noise: str) -> str:
    """Say what is missing where no accountant has a bound; nothing where one has."""
    if not any(found.certifying(relation) for relation in EVERY_RELATION):
        return f"no bound is known for {with_noise}sampler {sampler}"
    if asked.adaptive and not any(found.filtering(relation) for relation in EVERY_RELATION):
        return f"no filter is proven for {asked.mechanism.capitalize()} noise"
    if not found.certifying(asked.relation):
        return f"no bound is known for {with_noise}sampler {sampler} under {asked.relation}"
    return ""


def _lacking(found: _Support, sampler: str, asked: _Combination, with_noise: str) -> str:
    """Say what an accountant lacks where others have a bound."""
    if asked.accountant in found.rule.missing and not with_noise:
        return found.rule.missing[asked.accountant]
    for relation in EVERY_RELATION:
        proof = found.status(asked.accountant, relation)
        if proof is not None and proof.estimate:
            return f"no bound or estimate under {asked.relation}"
    return (
        f"{asked.accountant} has no proven bound for {with_noise}sampler {sampler} under "
        f"{asked.relation}"
    )


def _judged_adaptive(
    found: _Support | None, sampler: str, asked: _Combination
) -> tuple[Status, str]:
    filtering = found.filtering(asked.relation) if found is not None else []
    if asked.accountant in filtering:
        return "certified", "its filter adds up one number, which holds for adaptive schedules too"
    if not filtering:
        return "refused", f"no filter is proven for sampler {sampler} under {asked.relation}"
    return (
        "refused",
        f"{asked.accountant} has no filter that is proven where the noise follows released values",
    )


def _least_change(sampler: str, asked: _Combination) -> str:
    """Name the least that has to be changed for a proof.

    It is the accountant alone, if that is enough, and never the sampler.
    """
    choices: list[list[str]] = []
    for mechanism, adaptive, relation in itertools.product(
        dict.fromkeys((asked.mechanism, "gaussian")),
        dict.fromkeys((asked.adaptive, False)),
        dict.fromkeys((asked.relation, *relations(sampler))),
    ):
        working: list[str] = []
        for name in ACCOUNTANTS:
            case = _Combination(relation, adaptive, mechanism, name)
            status, _ = _judged(sampler, case)
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
