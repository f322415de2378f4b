"""A plan's numbers about batches: how they are drawn, and how large they get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.steps.timetable import Timetable, steps_for

if TYPE_CHECKING:
    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.step_plan import BatchRun

_RARE = 1e-6
"""The chance that a batch is larger than the largest likely one."""


def make_timetable(
    parts: PrivateParts, *, records: int | None, steps: int | None, epochs: float | None
) -> Timetable:
    """Return the steps of a run; refuse batches that are too large, and a delta that is.

    Args:
        parts: The components that decide privacy.
        records: The number of records, or of users; None where the relation keeps it secret.
        steps: How many steps were requested.
        epochs: How many epochs were requested, where `steps` is None.
    """
    rate = parts.sampler.rate(records)
    expected = parts.sampler.expected(records)
    _refuse_batch(rate, expected)
    _refuse_delta(parts, rate / expected)
    epoch = parts.sampler.epoch_length(records)
    if steps is None and epochs is not None:
        steps = steps_for(epochs, parts, rate=rate, epoch=epoch)
    return Timetable(parts, rate=rate, expected=expected, epoch=epoch, steps=steps)


def sampling_numbers(table: Timetable) -> dict[str, Any]:
    """Return what a plan says about the sampler."""
    sampler = table.parts.sampler
    return {
        "sampler": sampler.kind,
        "epochwise": sampler.epochwise,
        "steps_per_epoch": table.epoch,
        "block": table.parts.noise.block,
        "restart": "pays" if sampler.epochwise else table.parts.noise.restart,
        "sample_rate": table.rate,
        "expected_batch_size": table.expected,
    }


def batch_sizes(
    table: Timetable, batches: Sequence[BatchRun], *, records: int | None
) -> dict[str, float | None]:
    """Return the chance of an empty batch, and a size that about one batch in a million exceeds."""
    sampler = table.parts.sampler
    if records is None:
        return {"empty_batch_probability": None, "largest_likely_batch": None}
    if sampler.fixed_size:
        size = math.ceil(sampler.expected(records))
        return {"empty_batch_probability": 0.0, "largest_likely_batch": size}
    from scipy.stats import binom

    rates = [run.sample_rate for run in batches] or [table.rate]
    likely = int(binom.isf(_RARE, records, max(rates)))
    return {
        "empty_batch_probability": (1 - min(rates)) ** records,
        "largest_likely_batch": min(likely, sampler.largest() or records),
    }


def _refuse_batch(rate: float, expected: float) -> None:
    if not 0 < rate <= 1:
        raise UsageError(
            "sampler: expected a batch no larger than the number of records, "
            f"got {expected:g}. Lower it."
        )


def _refuse_delta(parts: PrivateParts, one_record: float) -> None:
    """Refuse a delta of `one_record` = 1/records or more."""
    if parts.budget is not None and parts.budget.delta >= one_record:
        raise PrivacyRefusal(
            f"budget.delta: expected less than 1/records = {one_record:.3g}, "
            f"got {parts.budget.delta:g}. "
            "At that delta a run may publish a whole record; choose a smaller one."
        )
