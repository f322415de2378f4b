"""The steps of a run before their noise is sized: each one's rate, batch size and bound, and what is charged for it.

A charge covers one step or, of an epoch-wise sampler, one epoch: then the noise moves from epoch to epoch, since all batches of
an epoch have to be noised alike to be one event. Everything here is fixed before a record is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from dppipe.errors import UsageError
from dppipe.optim.schedules.base import factors_of
from dppipe.planning.plan import BatchRun, BoundRun, NoiseRun

if TYPE_CHECKING:
    from dppipe.planning.parts import PrivateParts
    from dppipe.privacy.events.sequences import Steps

MOST_STEPS = 10_000_000
"""The most steps of a run."""
MOST_CHANGE = 1e6
"""What a schedule can multiply by at most; also, what it can divide by."""


@dataclass(frozen=True)
class Timetable:
    """What a run does at each step."""

    parts: PrivateParts
    rate: float
    expected: float
    epoch: int
    """The steps of an epoch."""
    steps: int | None
    """The steps that were asked for; None to go on until the budget is spent."""

    def __post_init__(self) -> None:
        refuse_length(self.steps or 0)

    @property
    def per_charge(self) -> int:
        """The steps that one charge covers."""
        return self.epoch if self.parts.sampler.epochwise else 1

    @property
    def charges(self) -> int | None:
        """The charges of all the steps that were asked for."""
        return None if self.steps is None else math.ceil(self.steps / self.per_charge)

    @property
    def needs_last_step(self) -> str | None:
        """What can't be done without knowing how long the run lasts; None where nothing moves over the run."""
        parts = self.parts
        if not parts.noise.constant:
            return f"the noise schedule {parts.noise.kind!r}"
        if parts.sampler.scheduled:
            return "sampler.batch_schedule"
        return "clipping.bound_schedule" if parts.clipping.bound_schedule is not None else None

    def uses(self, steps: int) -> float:
        """Give how often a record is used in so many steps, on average."""
        return (
            math.fsum(self.rates(self.steps or steps)[:steps])
            if self.parts.sampler.scheduled
            else self.rate * steps
        )

    def rates(self, steps: int) -> list[float]:
        """Give each step's sample rate."""
        rates = [
            self.rate * factor
            for factor in _checked(
                self.parts.sampler.batch_factors(steps), "sampler.batch_schedule"
            )
        ]
        if not 0 < max(rates, default=self.rate) <= 1:
            at_most = f"expected batches no larger than the number of records, got {max(rates) / self.rate:g} times"
            raise UsageError(
                f"sampler: {at_most} {self.expected:g}. Lower the expected batch size or its schedule."
            )
        return rates

    def events(self, scale: float, *, charges: int) -> Steps:
        """Give the events of so many charges at this noise scale, equal neighbours together."""
        rates = self.rates(charges) if self.per_charge == 1 else [self.rate] * charges
        settings = zip(self._multipliers(scale, charges), rates, strict=True)
        return [
            (self.parts.event(z, rate=rate), sum(1 for _ in run))
            for (z, rate), run in groupby(settings)
        ]

    def noise(self, scale: float, *, steps: int) -> tuple[NoiseRun, ...]:
        """Give the noise multipliers of the first `steps` steps."""
        charges = self.charges or math.ceil(steps / self.per_charge)
        multipliers = [
            z for z in self._multipliers(scale, charges) for _ in range(self.per_charge)
        ][:steps]
        return tuple(NoiseRun(noise_multiplier=z, steps=length) for z, length in _runs(multipliers))

    def batches(self, steps: int) -> tuple[BatchRun, ...]:
        """Give the rates and sizes of the first `steps` batches; nothing where they are all alike."""
        if not self.parts.sampler.scheduled:
            return ()
        rates = self.rates(self.steps or steps)[:steps]
        size = self.expected / self.rate
        return tuple(
            BatchRun(sample_rate=rate, expected_batch_size=rate * size, steps=length)
            for rate, length in _runs(rates)
        )

    def bounds(self, steps: int) -> tuple[BoundRun, ...]:
        """Give the factors on the bound of the first `steps` steps; nothing where they are all 1."""
        whole = self.steps or steps
        factors = factors_of(self.parts.clipping.bound_schedule, steps=whole)
        factors = _checked(factors, "clipping.bound_schedule")[:steps]
        if set(factors) <= {1.0}:
            return ()
        return tuple(BoundRun(factor=factor, steps=length) for factor, length in _runs(factors))

    def _multipliers(self, scale: float, charges: int) -> list[float]:
        return [
            scale * relative for relative in _checked(self.parts.noise.relative(charges), "noise")
        ]


def refuse_length(steps: float) -> None:
    """Refuse a run that is longer than a plan, which knows each step's noise, can hold."""
    if steps > MOST_STEPS:
        raise UsageError(
            f"train: expected a run of at most {MOST_STEPS:,} steps, got one of {steps:.3g}. Shorten it."
        )


def steps_for(epochs: float, parts: PrivateParts, *, rate: float, epoch: int) -> int:
    """Give the steps of so many epochs: enough to draw each record that often on average."""
    refuse_length(epochs * epoch if parts.sampler.epochwise else epochs / rate)
    if parts.sampler.epochwise:
        return math.ceil(epochs * epoch)
    steps = math.ceil(epochs / rate)
    if parts.sampler.scheduled:
        for _ in range(
            20
        ):  # the mean factor hardly depends on the number of steps, so this settles at once
            mean = (
                math.fsum(_checked(parts.sampler.batch_factors(steps), "sampler.batch_schedule"))
                / steps
            )
            if steps == (steps := math.ceil(epochs / (rate * mean))):
                break
    return steps


def _runs(values: Iterable[float]) -> list[tuple[float, int]]:
    return [(value, sum(1 for _ in run)) for value, run in groupby(values)]


def _checked(factors: list[float], place: str) -> list[float]:
    if not all(1 / MOST_CHANGE <= factor <= MOST_CHANGE for factor in factors):
        raise UsageError(
            f"{place}: expected a factor from 1/{MOST_CHANGE:g} to {MOST_CHANGE:g} at every step. Change the schedule."
        )
    return factors
