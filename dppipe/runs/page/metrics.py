"""Metrics of a run, with where they come from and how far chance alone could move them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.errors import UsageError

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan

NONPRIVATE = "nonprivate/"
NOISY_SCORE = "tune/score"
"""The score of a search's winner on a private holdout: it carries noise, and was charged."""
_PUBLIC = ("val/", "test/")
_COUNTS = {"val": "validation_records", "test": "test_records"}
_NORMAL_975 = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of the final model."""

    name: str
    value: float
    records: int | None = None
    """How many records it was computed on, where that is known."""

    @property
    def is_private(self) -> bool:
        """Whether it was computed from private records without noise."""
        return self.name.startswith(NONPRIVATE)

    @property
    def plain_name(self) -> str:
        """The name without its mark, by which runs are compared."""
        return self.name.removeprefix(NONPRIVATE)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of a share of right answers; None for any other metric."""
        if not self.plain_name.endswith("/accuracy") or not self.records:
            return None
        return wilson_interval(self.value, self.records)


def wilson_interval(share: float, records: int) -> tuple[float, float] | None:
    """Return the 95 % interval of Wilson (1927) for a share of independent records.

    Example:
        >>> from dppipe.runs.page.metrics import wilson_interval
        >>> low, high = wilson_interval(0.9, 100)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)
    """
    if records < 1 or not 0 <= share <= 1:
        return None
    square = _NORMAL_975**2
    scale = 1 + square / records
    centre = (share + square / (2 * records)) / scale
    spread = share * (1 - share) / records + square / (4 * records**2)
    half = _NORMAL_975 * math.sqrt(spread) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


def metrics_of(
    summary: Mapping[str, Any], plan: Plan, *, nonprivate: bool, place: str
) -> tuple[Sequence[Metric], int]:
    """Return the metrics that a page may show, and how many were left out.

    Guarantee: without `nonprivate` only metrics of a holdout that the plan calls public are
    returned, and scores that were released with noise.
    """
    kept: list[Metric] = []
    left_out = 0
    for block in ("metrics", "test"):
        values = summary.get(block, {})
        if not isinstance(values, Mapping):
            raise _damaged(place, block)
        for name, value in values.items():
            if not nonprivate and not _may_be_shown(name, plan):
                left_out += 1
            elif value is not None:
                kept.append(_metric(name, value, summary, place=f"{place}: {block}.{name}"))
    return kept, left_out


def _may_be_shown(name: str, plan: Plan) -> bool:
    if name == NOISY_SCORE:
        return True
    return plan.holdout == "public" and name.startswith(_PUBLIC)


def _metric(name: str, value: object, summary: Mapping[str, Any], *, place: str) -> Metric:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _damaged(place, "a metric")
    part = name.removeprefix(NONPRIVATE).split("/")[0]
    records = summary.get(_COUNTS.get(part, ""))
    counted = records if isinstance(records, int) and records > 0 else None
    return Metric(name=name, value=float(value), records=counted)


def _damaged(place: str, what: str) -> UsageError:
    return UsageError(
        f"{place}: expected {what} as a run has written it, got something else. Put the file back."
    )
