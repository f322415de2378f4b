"""Long schedules made short by rounding onto a few values.

Noise multipliers are rounded down, and Poisson rates up.

Guarantee: less noise never costs less. Nor does a higher Poisson rate: at a lower one the pair of
outputs is a mixture of the pair at the higher one with an equal pair, and every divergence in use
is jointly convex. So the coarse schedule costs at least what the given one does, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dppipe.privacy.events.base import Numbers, rule_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    Counts = Mapping[DpEvent, int]


def coarsened(
    stages: Sequence[Counts], *, distinct: int | None, up: bool = False
) -> tuple[list[Counts], float]:
    """Round until about `distinct` different events are left.

    Args:
        stages: Events and how many times each is done, in parts.
        distinct: The most different events wanted; None for any number.
        up: Round the other way: a bound from below, which says what rounding costs.

    Returns:
        The stages, and the largest factor less 1 that a number was rounded by.
    """
    if distinct is None:
        return list(stages), 0.0
    events: dict[DpEvent, Numbers] = {}
    for stage in stages:
        for event in stage:
            events[event] = _numbers(event)
    chosen = _few(events, distinct, up=up)
    if chosen == events:
        return list(stages), 0.0
    made: dict[Numbers, DpEvent] = {}
    factor = 1.0
    for event, setting in chosen.items():
        if setting not in made:
            made[setting] = _event(event, setting)
        given = events[event]
        factor = max(factor, _factor(given.noise, setting.noise))
        factor = max(factor, _factor(given.rate, setting.rate))
    rounded = {event: made[setting] for event, setting in chosen.items()}
    return [_counted(stage, rounded) for stage in stages], factor - 1


def _few(events: Mapping[DpEvent, Numbers], distinct: int, *, up: bool) -> dict[DpEvent, Numbers]:
    """Return a rounded setting for each event, about `distinct` different ones together."""
    forms: dict[object, set[Numbers]] = {}
    for setting in events.values():
        forms.setdefault(setting.rest, set()).add(setting)
    chosen = dict(events)
    bins = distinct
    while len(set(chosen.values())) > distinct and bins > 0:
        noise: dict[object, dict[float, float]] = {}
        rates: dict[object, dict[float, float]] = {}
        for form, alike in forms.items():
            noise[form] = _binned({setting.noise for setting in alike}, bins, down=not up)
            rates[form] = _binned({setting.rate for setting in alike}, bins, down=up)
        for event, (form, z, rate) in events.items():
            chosen[event] = Numbers(form, noise[form][z], rates[form][rate])
        bins = bins * 3 // 4
    return chosen


def _numbers(event: DpEvent) -> Numbers:
    rule = rule_of(event)
    found = rule.numbers(event) if rule.numbers is not None else None
    return Numbers(event, 1.0) if found is None else found


def _event(event: DpEvent, numbers: Numbers) -> DpEvent:
    with_numbers = rule_of(event).with_numbers
    if with_numbers is None or numbers.rest == event:
        return event  # nothing of it may be rounded
    return with_numbers(event, numbers)


def _binned(values: set[float], bins: int, *, down: bool) -> dict[float, float]:
    """Map each value to the least (or most) of those in its bin.

    Bins are even on a logarithmic scale. They begin at the end that values are rounded away from,
    and only some widths are taken: so a schedule and its first part, of noise that falls or of
    batches that grow, mostly have the same bins, and a result for one serves the other.
    """
    if len(values) <= bins:
        return {value: value for value in values}
    start = max(values) if down else min(values)
    logs = {value: abs(math.log(value / start)) for value in values}
    width = 2 ** (math.ceil(8 * math.log2(max(logs.values()) / bins)) / 8)
    places = {value: int(log / width) for value, log in logs.items()}
    chosen: dict[int, float] = {}
    for value, place in places.items():
        chosen[place] = (min if down else max)(value, chosen.get(place, value))
    return {value: chosen[place] for value, place in places.items()}


def _factor(had: float, has: float) -> float:
    return max(had / has, has / had)


def _counted(stage: Counts, rounded: Mapping[DpEvent, DpEvent]) -> Counts:
    counts: dict[DpEvent, int] = {}
    for event, count in stage.items():
        counts[rounded[event]] = counts.get(rounded[event], 0) + count
    return counts
