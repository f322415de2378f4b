"""Sequences of events for accountants: every event in one form, equal ones counted.

Nothing here decides a cost. `merge` refuses what can't be read as a finite sequence of chargeable
events, and brings each into the canonical form that its own rule names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import rule_of
from dppipe.privacy.events.plain import plain_form

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Steps = Sequence[tuple["DpEvent", int]]
"""What is done, in order: each event and how many times it is done in a row."""

Counts = Mapping["DpEvent", int]
"""What is done in any order: each event, as `merge` writes it, and how many times."""

_Counted = TypeVar("_Counted")

MOST_COUNTED = 10**9
"""The most times that one event is counted: far more than a run has steps, and few enough for every
bound on round-off."""


def merge(steps: Steps) -> dict[DpEvent, int]:
    """Count equal events together.

    The order of events never changes what a committed sequence costs.
    """
    counts: dict[DpEvent, int] = {}
    for event, count in steps:
        _check_count(count)
        for part, times in taken_apart(event):
            if count:
                counts[part] = counts.get(part, 0) + count * times
    return counts


def as_one_event(counts: Counts) -> DpEvent:
    """Return counted events as one event, which `merge` takes apart into the same counts."""
    import dp_accounting

    parts: list[DpEvent] = []
    for part, count in counts.items():
        parts.append(part if count == 1 else dp_accounting.SelfComposedDpEvent(part, count))
    if not parts:
        return dp_accounting.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp_accounting.ComposedDpEvent(tuple(parts))


def cumulative(stages: Sequence[Mapping[_Counted, int]]) -> Iterator[dict[_Counted, int]]:
    """Return all that is done up to each stage."""
    counts: dict[_Counted, int] = {}
    for stage in stages:
        for what, count in stage.items():
            counts[what] = counts.get(what, 0) + count
        yield dict(counts)


def first(steps: Steps, count: int) -> Steps:
    """Return the first `count` of the steps."""
    _check_count(count)
    left = count
    taken = []
    for event, times in steps:
        if left <= 0:
            break
        taken.append((event, min(times, left)))
        left -= times
    if left > 0:
        raise PrivacyRefusal(f"steps: expected at least {count} steps, got {count - left}.")
    return taken


def between(steps: Steps, low: int, high: int) -> Steps:
    """Return the steps after the first `low`, up to `high`."""
    _check_count(low)
    if low > high:
        raise PrivacyRefusal(
            f"steps: expected step counts in ascending order, got {high} after {low}."
        )
    taken = []
    done = 0
    for event, times in first(steps, high):
        if done + times > low:
            taken.append((event, done + times - max(done, low)))
        done += times
    return taken


def gaussian_precision(counts: Mapping[DpEvent, int], *, relation: Relation) -> float | None:
    """Return the sum of mu squared of events that Gaussian differential privacy bounds exactly.

    For a Gaussian on the whole dataset mu is its sensitivity over its noise. It is None where
    another event is among them.
    """
    precisions: list[float] = []
    for event, count in counts.items():
        rule = rule_of(event)
        proof = rule.proof("gdp", event, relation=relation)
        if rule.mu_squared is None or proof is None or proof.estimate:
            return None
        precisions.append(count * rule.mu_squared(event, relation))
    return math.fsum(precisions)


def total(steps: Steps) -> int:
    """Return the number of steps."""
    return sum(count for _, count in steps)


def single_events(steps: Steps) -> list[tuple[DpEvent, int]] | None:
    """Return steps in canonical form and in their order; None if a step is several events."""
    found: list[tuple[DpEvent, int]] = []
    for event, count in steps:
        _check_count(count)
        parts = list(taken_apart(event))
        if len(parts) != 1 or parts[0][1] != 1:
            return None
        if count:
            found.append((parts[0][0], count))
    return found


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_COUNTED:
        raise PrivacyRefusal(
            f"steps: expected a whole number of steps from 0 to {MOST_COUNTED:,}, got {count!r}."
        )


def taken_apart(event: DpEvent) -> Iterator[tuple[DpEvent, int]]:
    """Yield the canonical events of a composition, each with its count.

    What is released on the whole dataset adds up by itself.
    """
    rule = rule_of(event)
    if rule.is_canonical is not None and rule.is_canonical(event):
        yield event, 1
        return
    parts = rule.parts(event) if rule.parts is not None else None
    if parts is None:
        yield (rule.canonical or plain_form)(event), 1
        return
    for inner, count in parts:
        _check_count(count)
        for part, times in taken_apart(inner):
            yield part, times * count
