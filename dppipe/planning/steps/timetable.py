"""The steps of a run before their noise is sized: each one's rate, batch size, bound and charge.

A charge covers one step or, for an epoch-wise sampler, one epoch. In the second case the noise
changes from epoch to epoch only: all batches of an epoch need the same noise to be one event.
Everything here is fixed before a record is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.optim.schedules.base import factors_of
from dppipe.planning.step_plan import BatchRun, BoundRun, NoiseRun
from dppipe.planning.step_runs import CurvePoint

if TYPE_CHECKING:
    from dppipe.planning.parts import PrivateParts
    from dppipe.privacy.events.sequences import Steps

MOST_STEPS = 10_000_000
"""The most steps of a run."""
MOST_CHANGE = 1e6
"""The largest factor of a schedule, and the largest divisor."""
_MOST_ROUNDS = 20
"""How often the number of steps is corrected for a batch schedule; one round nearly always does."""


@dataclass(frozen=True)
class Timetable:
    """What a run does at each step."""

    parts: PrivateParts
    rate: float
    expected: float
    epoch: int
    """The steps of an epoch."""
    steps: int | None
    """The steps that were requested; None to go on until the budget is spent."""

    def __post_init__(self) -> None:
        refuse_length(self.steps or 0)

    @property
    def per_charge(self) -> int:
        """The steps that one charge covers."""
        return self.epoch if self.parts.sampler.epochwise else self.parts.noise.block

    @property
    def charges(self) -> int | None:
        """The charges of all the steps that were requested."""
        return None if self.steps is None else math.ceil(self.steps / self.per_charge)

    @property
    def needs_last_step(self) -> str | None:
        """The first setting that depends on the length of the run; None where there is none."""
        parts = self.parts
        if not parts.noise.constant:
            return f"the noise schedule {parts.noise.kind!r}"
        if parts.sampler.scheduled:
            return "sampler.batch_schedule"
        return "clipping.bound_schedule" if parts.clipping.bound_schedule is not None else None

    def uses(self, steps: int) -> float:
        """Return how often a record is used in so many steps, on average."""
        if self.parts.sampler.scheduled:
            return math.fsum(self.rates(self.steps or steps)[:steps])
        return self.rate * steps

    def rates(self, steps: int) -> list[float]:
        """Return each step's sample rate."""
        factors = self.parts.sampler.batch_factors(steps)
        _refuse_factors(factors, "sampler.batch_schedule")
        rates = [self.rate * factor for factor in factors]
        if not 0 < max(rates, default=self.rate) <= 1:
            raise UsageError(
                "sampler: expected batches no larger than the number of records, got "
                f"{max(rates) / self.rate:g} times {self.expected:g}. Lower the expected batch "
                "size or its schedule."
            )
        return rates

    def events(self, scale: float, *, charges: int) -> Steps:
        """Return the events of so many charges at this noise scale; equal neighbours are merged."""
        rates = self.rates(charges) if self.per_charge == 1 else [self.rate] * charges
        settings = zip(self._multipliers(scale, charges), rates, strict=True)
        events = []
        for (noise_multiplier, rate), run in groupby(settings):
            events.append((self.parts.event(noise_multiplier, rate=rate), len(list(run))))
        return events

    def noise(self, scale: float, *, steps: int) -> tuple[NoiseRun, ...]:
        """Return the noise multipliers of the first `steps` steps."""
        charges = self.charges or math.ceil(steps / self.per_charge)
        multipliers: list[float] = []
        for noise_multiplier in self._multipliers(scale, charges):
            multipliers += [noise_multiplier] * self.per_charge
        runs = _runs(multipliers[:steps])
        return tuple(NoiseRun(noise_multiplier=z, steps=length) for z, length in runs)

    def batches(self, steps: int) -> tuple[BatchRun, ...]:
        """Return the rates and sizes of the first `steps` batches; nothing if all are alike."""
        if not self.parts.sampler.scheduled:
            return ()
        records = self.expected / self.rate
        batches = []
        for rate, length in _runs(self.rates(self.steps or steps)[:steps]):
            size = rate * records
            batches.append(BatchRun(sample_rate=rate, expected_batch_size=size, steps=length))
        return tuple(batches)

    def bounds(self, steps: int) -> tuple[BoundRun, ...]:
        """Return the factors on the bound of the first `steps` steps; nothing if all are 1."""
        whole = self.steps or steps
        factors = factors_of(self.parts.clipping.bound_schedule, steps=whole)
        _refuse_factors(factors, "clipping.bound_schedule")
        runs = _runs(factors[:steps])
        if all(factor == 1.0 for factor, _ in runs):
            return ()
        return tuple(BoundRun(factor=factor, steps=length) for factor, length in runs)

    def curve_points(
        self, charges: Iterable[int], epsilons: Iterable[float], *, steps: int
    ) -> tuple[CurvePoint, ...]:
        """Return epsilon after the steps that so many charges cover, in a run of `steps` steps."""
        points = []
        for count, epsilon in zip(charges, epsilons, strict=True):
            points.append(CurvePoint(step=min(steps, count * self.per_charge), epsilon=epsilon))
        return tuple(points)

    def _multipliers(self, scale: float, charges: int) -> list[float]:
        relative = self.parts.noise.relative(charges)
        _refuse_factors(relative, "noise")
        return [scale * factor for factor in relative]


def refuse_length(steps: float) -> None:
    """Refuse a run with more steps than a plan can list."""
    if steps > MOST_STEPS:
        raise UsageError(
            f"train: expected a run of at most {MOST_STEPS:,} steps, got one of {steps:.3g}. "
            "Shorten it."
        )


def steps_for(epochs: float, parts: PrivateParts, *, rate: float, epoch: int) -> int:
    """Return the steps of so many epochs: enough to draw each record that often on average."""
    sampler = parts.sampler
    refuse_length(epochs * epoch if sampler.epochwise else epochs / rate)
    if sampler.epochwise:
        return math.ceil(epochs * epoch)
    steps = math.ceil(epochs / rate)
    if not sampler.scheduled:
        return steps
    for _ in range(_MOST_ROUNDS):
        factors = sampler.batch_factors(steps)
        _refuse_factors(factors, "sampler.batch_schedule")
        mean = math.fsum(factors) / steps
        corrected = math.ceil(epochs / (rate * mean))
        if corrected == steps:
            break
        steps = corrected
    return steps


def _runs(values: Iterable[float]) -> list[tuple[float, int]]:
    """Return each value once for all equal neighbours, with their number."""
    return [(value, len(list(run))) for value, run in groupby(values)]


def _refuse_factors(factors: Sequence[float], place: str) -> None:
    if not all(1 / MOST_CHANGE <= factor <= MOST_CHANGE for factor in factors):
        raise UsageError(
            f"{place}: expected a factor from 1/{MOST_CHANGE:g} to {MOST_CHANGE:g} at every step. "
            "Change the schedule."
        )
