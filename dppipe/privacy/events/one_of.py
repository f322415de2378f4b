"""One of several events, drawn by public weights; which one was drawn is part of the output.

Guarantee: at every epsilon its delta is the weighted sum of the events' own
(`selection/PROOF.md`, lemma 1), and no divergence exceeds the largest of theirs.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
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

_ROUND_OFF = 1e-9
"""How far the sum of the weights may be from 1; costs are computed with weights over that sum."""


@functools.cache
def event_class() -> Any:
    """Return the class of the event."""
    return make_event_class("OneOfDpEvent", ("events", "weights"))


def _parts(event: Any) -> tuple[tuple[DpEvent, int], ...] | None:
    """Candidates that are all alike are one event; the weights of equal ones are added."""
    together = _joined(event)
    if len(together) == 1:
        (alike,) = together
        return ((alike, 1),)
    return None


def _canonical(event: Any) -> DpEvent:
    together = _joined(event)
    made: DpEvent = event_class()(tuple(together), tuple(together.values()))
    return made


def _joined(event: Any) -> dict[DpEvent, float]:
    """Return the distinct candidates with their weights, which add up to 1."""
    plain: Any = plain_form(event)
    whole = math.fsum(plain.weights)
    if len(plain.events) != len(plain.weights) or abs(whole - 1) > _ROUND_OFF:
        raise PrivacyRefusal(
            "event.weights: expected one for each event, 1 in all, got "
            f"{len(plain.weights)} for {len(plain.events)} events, {whole:g} in all."
        )
    weights: dict[DpEvent, list[float]] = {}
    for candidate, weight in zip(plain.events, plain.weights, strict=True):
        if weight > 0:
            one = as_one_event(merge([(candidate, 1)]))
            weights.setdefault(one, []).append(weight)
    return {candidate: math.fsum(parts) for candidate, parts in weights.items()}


RULE = EventRule(
    name="OneOfDpEvent",
    fields={"events": "events", "weights": "floats"},
    meaning=(
        "One of `events`, drawn by `weights` that don't depend on records; which one is part of "
        "the output. The relation is that of the events."
    ),
    proofs=proofs_of_each(
        losses="`selection/PROOF.md`, lemma 1: the weighted sum of the deltas",
        divergences="`selection/PROOF.md`, lemma 1: at most the largest divergence",
    ),
    event_class=event_class,
    parts=_parts,
    canonical=_canonical,
    profile=joint_profile,
    reach=joint_reach,
    divergences=largest_divergences,
)
