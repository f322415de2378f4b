"""From parts to a plan: the steps, the noise that lands on the budget, and the epsilon after each step.

`make_plan` reads a spec; `plan_privacy` does the same for parts that were made in Python. Neither reads a record: the only
fact about the data is the number of records, and not even that where the relation keeps it secret.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal, UsageError
from dppipe.planning.plan import CurvePoint, NoiseRun, Plan
from dppipe.privacy.accountants.base import Accountant, Steps
from dppipe.privacy.budget import Budget

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.noise.base import NoiseSchedule
    from dppipe.sampling.base import Sampler

CURVE_POINTS = 20
"""Epsilon is computed at each twentieth of a run; each point costs PLD about a tenth of a second."""


@dataclass(frozen=True)
class PrivateParts:
    """The components that decide privacy, in the order in which a step uses them."""

    sampler: Sampler
    clipping: Clipper
    noise: NoiseSchedule
    accountant: Accountant
    budget: Budget | None

    def steps(self, scale: float, *, count: int, rate: float) -> Steps:
        """Give the events of a run of `count` steps at this noise scale, equal neighbours together."""
        multipliers = groupby(scale * relative for relative in self.noise.relative(count))
        return [
            (self.sampler.event(self.noise.event(multiplier), rate=rate), sum(1 for _ in run)) for multiplier, run in multipliers
        ]


def plan_privacy(
    parts: PrivateParts,
    *,
    name: str,
    records: int,
    steps: int | None = None,
    epochs: float | None = None,
    reproducible: bool = False,
    spec_hash: str = "",
    plugins: Mapping[str, str] | None = None,
) -> Plan:
    """Commit to a run: `steps` or `epochs`, or neither to go on until the budget is spent."""
    budget = parts.budget
    public = None if budget is not None and budget.relation == "add_remove" else records
    if budget is not None and budget.delta >= 1 / records:
        raise PrivacyRefusal(
            f"budget.delta: expected less than 1/records, got {budget.delta:g}. "
            "At that delta a run may publish a whole record; choose a smaller one."
        )
    rate, expected = parts.sampler.rate(public), parts.sampler.expected(public)
    if not 0 < rate <= 1:
        raise UsageError(f"sampler: expected a batch no larger than the {records} records, got {expected:g}. Lower it.")
    wanted = steps if steps is not None else math.ceil(epochs / rate) if epochs is not None else None
    privacy = _private(parts, budget, rate=rate, wanted=wanted) if budget else _not_private(wanted)
    return Plan(
        name=name,
        records=public,
        steps_per_epoch=max(1, round(1 / rate)),
        sampler=parts.sampler.kind,
        sample_rate=rate,
        expected_batch_size=expected,
        empty_batch_probability=(1 - rate) ** public if public is not None else None,
        largest_likely_batch=_largest_likely_batch(public, rate),
        clipping=parts.clipping.kind,
        max_grad_norm=parts.clipping.max_grad_norm,
        mechanism=parts.noise.mechanism,
        reproducible=reproducible,
        spec_hash=spec_hash,
        plugins=dict(plugins or {}),
        **privacy,
    )
