"""The real private step under observation: what it releases is copied before the optimizer sees it.

Everything is a run's own: engine, clipper, sampler, gate and noise. Only the records are made up,
and there is no ledger, as nothing is spent.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any

from torch import Tensor

from dppipe.audit.probes.step_claim import StepClaim
from dppipe.clipper_abilities import averages
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources, noise_process
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.ranks import Ranks
from dppipe.learners.records.loader import LogicalBatch, PrivateLoader
from dppipe.learners.records.unit_index import make_unit_index
from dppipe.learners.sgd.sensitivity import noise_unit
from dppipe.learners.sgd.step import PrivateStep
from dppipe.learners.sgd.step_noise import PlannedNoise
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.follower import NoLedger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.utils.data import Dataset

    from dppipe.engine import Engine
    from dppipe.learners.sgd.buffers import Buffers
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.planning.step_plan import StepPlan
    from dppipe.privacy.budget import Relation
    from dppipe.randomness.gaussian import NoiseSource

TIMED_STEPS = 10
"""Steps that are timed before draws are counted: whole epochs of the transcript probe."""


class _Silence:
    """A source without noise: it only divides."""

    def add_(self, flat: Tensor, std: float, *, over: float = 1.0) -> Tensor:
        return flat.div_(over)


class SilentSources(NoiseSources):
    """Sources without noise, for what is measured inside an auditing process only."""

    def get(self, purpose: Any, mechanism: str = "gaussian") -> NoiseSource:
        """Return a source that adds nothing."""
        return _Silence()


class ObservedStep(PrivateStep):
    """A private step whose releases can be looked at.

    The state of an adaptive clipper stays as it is, so that all draws are of one distribution.
    """

    released: Tensor
    """The last release: the noisy sum of gradients and, after it, that of the clipper's counts."""
    batch: LogicalBatch

    def draw(self) -> Tensor:  # -> [d + K]
        """Take a step; return its noisy sums, in float64."""
        self(self.batch, place=lambda rows: rows)
        return self.released

    def seconds_each(self) -> float:
        """Return how long a step takes: the median of a few, which are thrown away."""
        found = []
        for _ in range(TIMED_STEPS):
            started = time.monotonic()
            self.draw()
            found.append(time.monotonic() - started)
        return statistics.median(found)

    def claim(self) -> StepClaim:
        """Return what is claimed of each release in the clipper's present state."""
        bounds = self._bounds(1)
        multiplier = self.plan.noise_multiplier(1)
        relation = self.gate.relation
        unit = noise_unit(self.parts.clipping, bounds, relation, order=self.engine.order)
        std = self.plan.statistics_std or 0.0
        sizes = {name: value.numel() for name, value in self.engine.parameters.items()}
        return StepClaim(
            multiplier=multiplier,
            unit=unit,
            std=self.plan.gradient_multiplier(multiplier) * unit,
            counts=self._statistics,
            count_std=std * math.sqrt(self._statistics),
            sizes=sizes,
            groups=dict(self.engine.groups.column),
            bounds=bounds,
            relation=relation,
            mechanism=self.plan.mechanism,
            order=self.engine.order,
            averages=averages(self.parts.clipping),
        )

    def _adapt(self, buffers: Buffers, *, noise_std: float, expected: float) -> dict[str, Tensor]:
        self.released = buffers.flat.double() * expected
        state = self.clipper_state
        released = super()._adapt(buffers, noise_std=noise_std, expected=expected)
        self.next_state: Mapping[str, Any] = self.clipper_state
        self.clipper_state = state
        return released


def make_loader(dataset: Dataset[Any], parts: PrivateParts, plan: StepPlan) -> PrivateLoader:
    """Return a run's loader for made-up records, armed with a secret stream."""
    index = make_unit_index(dataset, records_per_user=plan.max_records_per_user)
    loader = PrivateLoader(dataset, sampler=parts.sampler, index=index)
    loader.arm(plan, stream=Keystream(stream_key("sampler")), ranks=Ranks())
    return loader


def observe_step(
    parts: PrivateParts,
    plan: StepPlan,
    engine: Engine,
    loader: PrivateLoader,
    *,
    relation: Relation,
    clipper_state: Mapping[str, Any],
    silent: bool = False,
) -> ObservedStep:
    """Return a private step of made-up records, with noise or, for measurements, without.

    Args:
        parts: The components that decide privacy.
        plan: As many steps as will be drawn.
        engine: The engine of the audited model.
        loader: The made-up records.
        relation: What neighbouring data sets differ in.
        clipper_state: The state that the clipper has and keeps.
        silent: Whether there is no noise.
    """
    upcoming = UpcomingSteps(plan, parts, PlannedNoise(plan), taken=0)
    sources = SilentSources() if silent else NoiseSources(secure=plan.secure)
    gate = Gate(
        NoLedger(),
        upcoming,
        relation,
        plan.unit,
        sources=sources,
        process=noise_process(parts.noise),
    )
    loader.may_draw = lambda: gate.computing
    step = ObservedStep(parts, plan, engine, gate, upcoming, clipper_state)
    step.batch = LogicalBatch(loader)
    return step
