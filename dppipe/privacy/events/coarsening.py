"""Long schedules made short: noise multipliers rounded down, and Poisson rates rounded up, onto a few values.

Guarantee: less noise never costs less. Nor does a higher Poisson rate: at a lower one the pair of outputs is a mixture of the
pair at the higher one with an equal pair, and every divergence in use is jointly convex. So the coarse schedule costs at
least what the given one does, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    Counts = Mapping[DpEvent, int]


class _Setting(NamedTuple):
    """What may be rounded of an event; everything else, as its `form`, has to stay."""

    form: object
    noise: float
    rate: float


def coarsened(
    stages: Sequence[Counts], *, distinct: int | None, up: bool = False
) -> tuple[list[Counts], float]:
    """Round until about `distinct` different events are left; a schedule that has no more stays as it is.

    Args:
        stages: Events and how many times each is done, in parts.
        distinct: The most different events wanted; None for any number.
        up: Round the other way: a bound from below, which says what rounding costs.

    Returns:
        The stages, and the largest factor less 1 that a number was rounded by.
    """
    if distinct is None:
        return list(stages), 0.0
    events = {event: _setting(event) for stage in stages for event in stage}
    forms: dict[object, set[_Setting]] = {}
    for setting in events.values():
        forms.setdefault(setting.form, set()).add(setting)
    chosen, bins = dict(events), distinct
    while len(set(chosen.values())) > distinct and bins > 0:
        noise = {
            form: _binned({had.noise for had in alike}, bins, down=not up)
            for form, alike in forms.items()
        }
        rates = {
            form: _binned({had.rate for had in alike}, bins, down=up)
            for form, alike in forms.items()
        }
        chosen = {
            event: _Setting(had.form, noise[had.form][had.noise], rates[had.form][had.rate])
            for event, had in events.items()
        }
        bins = bins * 3 // 4
    if chosen == events:
        return list(stages), 0.0
    made: dict[_Setting, DpEvent] = {}
    for event, setting in chosen.items():
        if setting not in made:
            made[setting] = _event(event, setting)
    factors = (
        max(_factor(had.noise, chosen[event].noise), _factor(had.rate, chosen[event].rate))
        for event, had in events.items()
    )
    return [
        _counted(stage, {event: made[chosen[event]] for event in stage}) for stage in stages
    ], max(factors) - 1


def _setting(event: DpEvent) -> _Setting:
    name, inner = type(event).__name__, getattr(event, "event", event)
    noise = getattr(inner, "noise_multiplier", 1.0)
    form: tuple[object, ...] = (name, type(inner).__name__)
    if name == "PoissonSampledDpEvent":
        return _Setting(form, noise, event.sampling_probability)
    if name in ("GaussianDpEvent", "LaplaceDpEvent"):
        return _Setting(form, noise, 1.0)
    if name in ("SampledWithReplacementDpEvent", "SampledWithoutReplacementDpEvent"):
        return _Setting((*form, event.source_dataset_size, event.sample_size), noise, 1.0)
    if name == "BallsInBinsDpEvent":
        return _Setting((*form, event.bins), noise, 1.0)
    if name == "TruncatedSubsampledGaussianDpEvent":
        return _Setting(
            (*form, event.dataset_size, event.sampling_probability, event.truncated_batch_size),
            noise,
            1.0,
        )
    return _Setting(event, 1.0, 1.0)


def _event(event: DpEvent, setting: _Setting) -> DpEvent:
    import attr

    if hasattr(event, "event"):
        event = attr.evolve(event, event=attr.evolve(event.event, noise_multiplier=setting.noise))
    elif hasattr(event, "noise_multiplier"):
        event = attr.evolve(event, noise_multiplier=setting.noise)
    if type(event).__name__ == "PoissonSampledDpEvent":
        event = attr.evolve(event, sampling_probability=setting.rate)
    return event


def _binned(values: set[float], bins: int, *, down: bool) -> dict[float, float]:
    """Give each value the least (or most) of those in its bin; bins are even on a logarithmic scale.

    They begin at the end that values are rounded away from, and only some widths are taken: so a schedule and its first part,
    of noise that falls or of batches that grow, mostly have the same bins, and what is worked out for one serves the other.
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
