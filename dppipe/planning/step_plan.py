"""The plan of a run that takes steps: sampling, clipping and noise of each of them.

The steps are described by runs of equal values (`step_runs.py`), so that a plan of a million steps
is small. Read next: `privacy_plan.py`, which makes such a plan.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal

from pydantic import model_validator

from dppipe.planning.plan import Plan
from dppipe.planning.planned_release import PlannedRelease
from dppipe.planning.step_runs import BatchRun, BoundRun, NoiseRun
from dppipe.planning.tuning.tune_plan import TunePlan
from dppipe.privacy.noise_split import gradient_multiplier

__all__ = ["BatchRun", "BoundRun", "NoiseRun", "StepPlan", "charges_for", "plan_from_json"]


def charges_for(steps: int, per_charge: int) -> int:
    """Return how many charges cover so many steps, if each covers `per_charge` of them."""
    whole, rest = divmod(steps, per_charge)
    return whole + 1 if rest else whole


class StepPlan(Plan):
    """The plan of DP-SGD, which takes steps.

    Guarantee: as that of `Plan`, at any step up to `steps`.
    """

    steps_per_epoch: int
    epochwise: bool = False
    """Whether an epoch is charged as a whole, on its first step."""
    block: int = 1
    """How many steps one charge of the noise covers; more than 1 for correlated noise."""
    restart: Literal["pays", "free"] = "pays"
    """Whether the rest of an epoch or block that was cut off has to be paid for anew."""
    sampler: str
    sample_rate: float
    expected_batch_size: float
    batches: tuple[BatchRun, ...] = ()
    """The rate and size of each step's batch, where they follow a schedule.

    Without a schedule, the two fields above hold for every step.
    """
    empty_batch_probability: float | None
    largest_likely_batch: int | None
    clipping: str
    max_grad_norm: float
    """The clipping bound; the first one, where it adapts."""
    averages: bool = False
    """Whether averages of examples are clipped.

    One example can turn an average around, so noise is scaled to twice the bound.
    """
    bounds: tuple[BoundRun, ...] = ()
    """The factor on the bound at each step, where it follows a schedule."""
    statistics_std: float | None = None
    """The noise on a batch's sum of the clipper's statistic, where the clipper releases one."""
    mechanism: str
    noise: tuple[NoiseRun, ...]
    """The noise of every step; only the expected noise, where a filter admits each step."""

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_version(cls, data: Any) -> Any:
        """Plans of earlier versions state statistics in two fields of their own."""
        if not isinstance(data, dict) or "scaling_noise_multiplier" not in data:
            return data
        known = dict(data)
        multiplier = known.pop("scaling_noise_multiplier")
        name = known.pop("scaling_statistics", None)
        if multiplier is not None:
            known["releases"] = (PlannedRelease.statistics(name or "statistics", multiplier),)
        return known

    @property
    def steps_per_charge(self) -> int:
        """How many steps one charge covers."""
        return self.steps_per_epoch if self.epochwise else self.block

    def noise_multiplier(self, step: int) -> float:
        """Return the noise multiplier of a step, counted from 1."""
        return self.noise[bisect_left(self._last_steps, step)].noise_multiplier

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """Return the noise multiplier of the gradient alone.

        It is larger where a released statistic takes a part of the step's cost.
        """
        if self.statistics_std is None:
            return noise_multiplier
        return gradient_multiplier(noise_multiplier, statistics_std=self.statistics_std)

    def batch(self, step: int) -> BatchRun:
        """Return the rate and the expected size of a step's batch."""
        if not self.batches:
            return BatchRun(
                sample_rate=self.sample_rate,
                expected_batch_size=self.expected_batch_size,
                steps=self.steps,
            )
        return self.batches[bisect_left(self._last_of_batches, step)]

    def bound_factor(self, step: int) -> float:
        """Return the factor on the clipper's bounds at a step."""
        if not self.bounds:
            return 1.0
        return self.bounds[bisect_left(self._last_of_bounds, step)].factor

    def place_in_epoch(self, step: int) -> int:
        """Return a step's place in its epoch, from 0."""
        return (step - 1) % self.steps_per_epoch

    def charges(self, step: int) -> int:
        """Return how often a step is charged: 1, or 0 where an earlier step has paid for it."""
        return 1 if (step - 1) % self.steps_per_charge == 0 else 0

    def start_after(self, step: int) -> int:
        """Return the step after which a run goes on that was interrupted after `step`.

        The rest of an epoch or block that has begun is lost, unless going on in it is free.
        """
        if self.restart == "free":
            return step
        return step + (-step % self.steps_per_charge)

    def charged_runs(self) -> list[tuple[float, float, int]]:
        """Return the charges of all steps: noise multiplier, sample rate, and their number."""
        per_charge = self.steps_per_charge
        ends = sorted({0, *self._last_steps, *self._last_of_batches})
        runs = []
        for start, end in pairwise(ends):
            rate = self.batch(end).sample_rate
            count = charges_for(end, per_charge) - charges_for(start, per_charge)
            runs.append((self.noise_multiplier(end), rate, count))
        return runs

    @cached_property
    def _last_steps(self) -> list[int]:
        return list(accumulate(run.steps for run in self.noise))

    @cached_property
    def _last_of_batches(self) -> list[int]:
        return list(accumulate(run.steps for run in self.batches))

    @cached_property
    def _last_of_bounds(self) -> list[int]:
        return list(accumulate(run.steps for run in self.bounds))


def plan_from_json(data: bytes) -> Plan:
    """Read a plan back: that of DP-SGD, which takes steps, of another learner, or of a search."""
    return _kind_of(data).model_validate_json(data)


def _kind_of(data: bytes) -> type[Plan]:
    try:
        found = json.loads(data)
        if "search" in found:
            return TunePlan
        return StepPlan if found.get("learner", "dp_sgd") == "dp_sgd" else Plan
    except (ValueError, AttributeError, TypeError):
        return StepPlan  # reading it as a plan says what is wrong
