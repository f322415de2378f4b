"""Several events, each of which sees other records: training, say, and a score on a holdout.

Guarantee: no person has records in two of the sets, and none moves from one to another. Then a
person changes what one event sees, and the rest only process its output: delta is the largest of
the events' own, at every epsilon (McSherry 2009, parallel composition;
`selection/PROOF.md`, lemma 1).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.events.base import EventRule, make_event_class
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.events.sequences import as_one_event, merge
from dppipe.privacy.events.several import (
    joint_profile,
    joint_reach,
    largest_divergences,
    proofs_of_each,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@functools.cache
def event_class() -> Any:
    """Return the class of the event."""
    return make_event_class("DisjointDpEvent", ("events",))


def _parts(event: Any) -> tuple[tuple[DpEvent, int], ...] | None:
    """What releases nothing is left out; one event alone, or several alike, are that event."""
    distinct = _distinct(event)
    if len(distinct) > 1:
        return None
    return tuple((one, 1) for one in distinct)


def _canonical(event: Any) -> DpEvent:
    made: DpEvent = event_class()(tuple(_distinct(event)))
    return made


def _distinct(event: Any) -> list[DpEvent]:
    plain: Any = plain_form(event)
    found: dict[DpEvent, None] = {}
    for one in plain.events:
        counts = merge([(one, 1)])
        if counts:
            found[as_one_event(counts)] = None
    return list(found)


RULE = EventRule(
    name="DisjointDpEvent",
    fields={"events": "events"},
    meaning=(
        "Several `events`, each about other records; no person has records in two of the sets. The "
        "relation is that of the events, and under `replace_one` a record stays in its set."
    ),
    proofs=proofs_of_each(
        losses="McSherry 2009, parallel composition: the largest delta",
        divergences="McSherry 2009, parallel composition: the largest divergence",
    ),
    event_class=event_class,
    parts=_parts,
    canonical=_canonical,
    profile=joint_profile,
    reach=joint_reach,
    divergences=largest_divergences,
)
