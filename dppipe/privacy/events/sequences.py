"""Sequences of events for accountants: every event in one form, equal ones counted.

Nothing here decides a cost. `merge` refuses what can't be read as a finite sequence of chargeable
events; it also folds several Gaussians on one sample into the one Gaussian that they are, which
dp_accounting reads wrongly or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.plain import event_from_data, event_to_data

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
        for part, times in _parts(event):
            if count:
                counts[part] = counts.get(part, 0) + count * times
    return counts


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
    """Return the sum of (sensitivity / noise)^2 of Gaussians on the whole dataset.

    It is None where another event is among them.
    """
    if not all(type(event).__name__ == "GaussianDpEvent" for event in counts):
        return None
    sensitivity = 2 if relation == "replace_one" else 1
    precisions: list[float] = []
    for event, count in counts.items():
        ratio = sensitivity / event.noise_multiplier
        precisions.append(count * (ratio * ratio))  # unlike a power, it overflows to infinity
    return math.fsum(precisions)


def total(steps: Steps) -> int:
    """Return the number of steps."""
    return sum(count for _, count in steps)


def _check_count(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_COUNTED:
        raise PrivacyRefusal(
            f"steps: expected a whole number of steps from 0 to {MOST_COUNTED:,}, got {count!r}."
        )


def _parts(event: DpEvent) -> Iterator[tuple[DpEvent, int]]:
    """Take compositions apart: what is released on the whole dataset adds up by itself."""
    name = type(event).__name__
    if name == "SelfComposedDpEvent":
        _check_count(event.count)
        for part, times in _parts(event.event):
            yield part, times * event.count
    elif name == "ComposedDpEvent":
        for inner in event.events:
            yield from _parts(inner)
    elif _is_plain(event):
        yield event, 1
    elif name != "NoOpDpEvent":
        yield _one_form(event), 1


def _is_plain(event: DpEvent) -> bool:
    """Whether this is a Gaussian, sampled or not, in its one form with valid numbers.

    Nearly all events are, and the check is fast.
    """
    name = type(event).__name__
    if name == "PoissonSampledDpEvent":
        return _is_rate(event.sampling_probability) and _is_gaussian(event.event)
    if name in ("SampledWithReplacementDpEvent", "SampledWithoutReplacementDpEvent"):
        return _is_part(event.sample_size, event.source_dataset_size) and _is_gaussian(event.event)
    if name == "TruncatedSubsampledGaussianDpEvent":
        sizes = _is_part(event.truncated_batch_size, event.dataset_size)
        return sizes and _is_rate(event.sampling_probability) and _is_noise(event.noise_multiplier)
    return _is_gaussian(event)


def _is_rate(value: object) -> bool:
    return type(value) is float and 0 < value < 1


def _is_part(size: object, whole: object) -> bool:
    return type(size) is int and type(whole) is int and 0 < size < whole


def _is_gaussian(event: DpEvent) -> bool:
    return type(event).__name__ == "GaussianDpEvent" and _is_noise(event.noise_multiplier)


def _is_noise(z: object) -> bool:
    return type(z) is float and 0 < z < math.inf


def _one_form(event: DpEvent) -> DpEvent:
    """Return the event in its one form.

    It has plain finite floats, one mechanism inside a sampler, and no sampler at rate 1.
    """
    import dp_accounting

    name = type(event).__name__
    if name in (
        "PoissonSampledDpEvent",
        "SampledWithReplacementDpEvent",
        "SampledWithoutReplacementDpEvent",
    ):
        inner = _one_mechanism(event.event)
        if name == "PoissonSampledDpEvent":
            event = dp_accounting.PoissonSampledDpEvent(event.sampling_probability, inner)
        else:
            event = type(event)(event.source_dataset_size, event.sample_size, inner)
    event = event_from_data(event_to_data(event))
    rate = getattr(event, "sampling_probability", None)
    if rate is not None and rate > 1:
        raise PrivacyRefusal(
            f"event.sampling_probability: expected a number of at most 1, got {rate}."
        )
    if name == "SampledWithoutReplacementDpEvent" and event.sample_size > event.source_dataset_size:
        raise PrivacyRefusal(
            f"event.sample_size: expected at most the {event.source_dataset_size} records there "
            f"are, got {event.sample_size}."
        )
    if (name == "PoissonSampledDpEvent" and rate == 1) or (
        name == "SampledWithoutReplacementDpEvent"
        and event.sample_size == event.source_dataset_size
    ):
        return event.event
    return event


def _one_mechanism(event: DpEvent) -> DpEvent:
    """Fold Gaussians on the same sample into one.

    Their precisions add up (Dong, Roth and Su 2019).
    """
    import dp_accounting

    parts = list(_parts(event))
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    precisions: list[float] = []
    for part, times in parts:
        if isinstance(part, dp_accounting.GaussianDpEvent):
            precisions.append(times / part.noise_multiplier**2)
    if not parts or len(precisions) < len(parts):
        raise PrivacyRefusal(
            "event: expected one mechanism or several Gaussians on each sample. The rest can't be "
            "charged."
        )
    return dp_accounting.GaussianDpEvent(math.fsum(precisions) ** -0.5)
