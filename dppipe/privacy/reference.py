"""The page of proofs, written from what events and samplers declare.

`make docs` writes it (`python -m dppipe.privacy.reference > docs/proofs.md`), and a test keeps it
current, so that no pair of sampler and accountant is listed by hand anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, event_names, rule_named
from dppipe.privacy.proofs import ACCOUNTANTS, EVERY_RELATION, Proof
from dppipe.privacy.sampler_files import sampler_kinds, sampler_proof
from dppipe.privacy.support import relations, verdict

_HEAD = """\
# Proofs

What is proven of which sampler, relation, accountant and event. This page is written from the
declarations in the code (`make docs`): a sampler's class declares the event that it makes and the
relations under which that event describes its draws (`dppipe/sampling`), and an event's file which
accountants bound it, with the theorem (`dppipe/privacy/events`). Accountants refuse what isn't
declared, before a record is read, and name what would work.
"""

_EVENTS = """\
## What is known of each event
An *estimate* isn't a bound. A theorem is named by its authors and year; `pld/PROOF.md` is
`dppipe/privacy/pld/PROOF.md`.
"""


def make_reference() -> str:
    """Write the page."""
    lines = [_HEAD]
    for mechanism in ("gaussian", "laplace"):
        lines += _pairs(mechanism)
    lines += ["## Why a sampler's event is right", "", *_samplers(), "", _EVENTS]
    for name in event_names():
        lines += _event(rule_named(name))
    return "\n".join(lines).rstrip() + "\n"


def _pairs(mechanism: str) -> Iterator[str]:
    """Yield the table of samplers, relations and accountants for one kind of noise."""
    yield f"## Which goes with which: {mechanism.capitalize()} noise"
    yield "What isn't in the table is refused."
    yield ""
    yield "| sampler | relation | certified | estimate | certified where noise follows releases |"
    yield "|---|---|---|---|---|"
    for sampler in sampler_kinds():
        for relation in relations(sampler):
            certified = _kinds(sampler, relation, mechanism, status="certified")
            estimate = _kinds(sampler, relation, mechanism, status="estimate")
            filters = _kinds(sampler, relation, mechanism, status="certified", adaptive=True)
            if certified or estimate:
                cells = (f"`{sampler}`", f"`{relation}`", certified, estimate, filters)
                yield _row(cells)
    yield ""


def _kinds(
    sampler: str, relation: str, mechanism: str, *, status: str, adaptive: bool = False
) -> str:
    """Return the accountants that get this answer."""
    found: list[str] = []
    for kind in ACCOUNTANTS:
        answer = verdict(
            sampler=sampler,
            relation=relation,
            accountant=kind,
            adaptive=adaptive,
            mechanism=mechanism,
        )
        if answer.status == status:
            found.append(kind)
    return "all" if len(found) == len(ACCOUNTANTS) else ", ".join(found)


def _samplers() -> Iterator[str]:
    yield "| sampler | its event | right under | why | why not under others |"
    yield "|---|---|---|---|---|"
    for kind in sampler_kinds():
        declared = sampler_proof(kind)
        if declared is not None:
            event = f"`{declared.event}`" if declared.event else "the mechanism's own"
            under = _relations(declared.relations)
            yield _row((f"`{kind}`", event, under, declared.why, declared.why_not))


def _event(rule: EventRule) -> Iterator[str]:
    """Yield what is known of one event."""
    yield f"### {rule.name}"
    yield f"{rule.meaning}"
    yield ""
    if not rule.proofs:
        return
    yield "| accountants | relations | holds for | by |"
    yield "|---|---|---|---|"
    for proof in rule.proofs:
        kinds = ", ".join(kind for kind in ACCOUNTANTS if kind in proof.accountants)
        yield _row((kinds, _relations(proof.relations), _condition(proof), _source(proof)))
    yield ""


def _condition(proof: Proof) -> str:
    parts = [f"`{proof.inside}` inside"] if proof.inside else []
    if proof.case:
        parts.append(proof.case)
    return ", ".join(parts)


def _source(proof: Proof) -> str:
    return f"ESTIMATE: {proof.source}" if proof.estimate else proof.source


def _relations(given: tuple[Relation, ...]) -> str:
    if set(given) == set(EVERY_RELATION):
        return "every relation"
    return ", ".join(f"`{relation}`" for relation in given)


def _row(cells: tuple[str, ...]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


if __name__ == "__main__":
    sys.stdout.write(make_reference())
