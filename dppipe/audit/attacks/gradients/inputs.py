"""What an attacker may see of a record's gradient: raw, clipped, noised, and in a run's real step.

Clipping and noise are those of the run, by the run's own code: the engine, the private step and
its gate. The gate has no ledger, as nothing is released: the records are made up, or what is found
stays under `nonprivate/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor

from dppipe.audit.attacks.gradients.knowledge import Gradient, Knowledge
from dppipe.clipper_abilities import first_state
from dppipe.engine import Engine
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources, noise_process
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.records.reading import PhysicalBatch
from dppipe.learners.sgd.step import PrivateStep
from dppipe.learners.sgd.step_noise import PlannedNoise
from dppipe.runs.follower import NoLedger

if TYPE_CHECKING:
    from dppipe.learners.records.loader import LogicalBatch
    from dppipe.learners.records.whole_units import UnitOf
    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.step_plan import StepPlan
    from dppipe.randomness.gaussian import NoiseSource
    from dppipe.randomness.streams import Purpose

Records = tuple[Tensor, Tensor]
"""Inputs `[n, ...]` and targets `[n, ...]`."""


@dataclass(frozen=True)
class RunStep:
    """The private step of a run, at its last weights."""

    parts: PrivateParts
    plan: StepPlan
    clipper_state: Mapping[str, Any] = field(default_factory=dict)
    """The clipper's state at the end of the run; empty for its first state."""

    @property
    def number(self) -> int:
        """The step that is repeated: the last one that begins an epoch or a block of noise."""
        return self.plan.steps - (self.plan.steps - 1) % self.plan.steps_per_charge

    @property
    def batch_size(self) -> int:
        """The expected size of the step's batch, in whole records."""
        return max(1, round(self.plan.batch(self.number).expected_batch_size))

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of the step's gradient."""
        return self.plan.gradient_multiplier(self.plan.noise_multiplier(self.number))


@dataclass(frozen=True)
class FixedBatch:
    """A batch whose records are chosen beforehand, where a run would draw them."""

    records: Records

    def draw(self, step: int, unit_of: UnitOf | None = None) -> Iterator[PhysicalBatch]:
        """Yield all records at once; with `unit_of`, each with the unit of its place."""
        inputs, targets = self.records
        units = None if unit_of is None else unit_of(torch.arange(len(inputs)).numpy())
        yield PhysicalBatch([[inputs, targets]], units)


def raw_gradient(known: Knowledge, records: Records) -> Gradient:
    """Return the gradient of the records' mean loss: what a run without privacy would show."""
    inputs, targets = records
    summed = known.gradient(inputs, targets)
    return {name: values.detach() / len(inputs) for name, values in summed.items()}


def clipped_gradient(known: Knowledge, records: Records, step: RunStep) -> Gradient:
    """Return what the run's step would release of the records if it added no noise."""
    return _taken(known, records, step, _Silence())


def released_gradient(known: Knowledge, records: Records, step: RunStep, *, seed: int) -> Gradient:
    """Return what the run's step would release of the records, with noise by a public seed."""
    return _taken(known, records, step, NoiseSources(seed, secure=step.plan.secure))


def _taken(known: Knowledge, records: Records, step: RunStep, sources: NoiseSources) -> Gradient:
    """Take the run's private step on these records; return what it released, as a sum."""
    parts = step.parts
    if parts.budget is None:
        raise ValueError("expected a run with a budget, got one without")
    order: Literal[1, 2] = 1 if parts.noise.mechanism == "laplace" else 2
    upcoming = UpcomingSteps(
        step.plan,
        parts,
        PlannedNoise(step.plan),
        taken=step.number - 1,
        done=len(step.plan.releases),
    )
    gate = Gate(
        NoLedger(),
        upcoming,
        parts.budget.relation,
        step.plan.unit,
        sources=sources,
        process=noise_process(parts.noise),
    )
    with Engine(known.model, known.loss, parts.clipping, order=order) as engine:
        state = step.clipper_state or first_state(parts.clipping, engine.groups.sizes)
        private = PrivateStep(parts, step.plan, engine, gate, upcoming, state)
        released = private(cast("LogicalBatch", FixedBatch(records)), place=lambda part: part)
    over = step.plan.batch(step.number).expected_batch_size
    return {name: values.detach() * over for name, values in released.items()}


class _Silence(NoiseSources):
    """Sources that add nothing, so that what was clipped can be looked at."""

    def get(self, purpose: Purpose, mechanism: str = "gaussian") -> NoiseSource:
        """Return a source that only divides."""
        return _OnlyDivides()


class _OnlyDivides:
    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        """Divide in place, and add nothing."""
        return flat.div_(over)
