"""A learner that owns its loop, as probes see it: its `fit` on a small made-up set, with a gate.

What goes through the gate is observed. Where a release is a value with noise on it, the value is
computed once in each world, and the gate charges, noises and divides it on every draw.
"""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.audit.probes.canaries import SCALES, Canary, scaled_rows
from dppipe.audit.probes.made_up_records import Columns, MadeUpRecords, Row
from dppipe.audit.probes.observed_step import TIMED_STEPS, SilentSources
from dppipe.audit.probes.step_claim import StepClaim
from dppipe.learners.gate import Gate
from dppipe.learners.gating.bounded import Bounded
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.gating.upcoming import PlannedReleases
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.learners.job import Job
from dppipe.learners.plugin_gate import PluginGate
from dppipe.learners.records.training_records import TrainingRecords, Unit
from dppipe.pipeline.learn import untrained_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.planning.privacy_plan import public_facts
from dppipe.privacy.events.multipliers import mechanism_of, noise_multiplier
from dppipe.privacy.release import is_built_in
from dppipe.runs.follower import NoLedger

if TYPE_CHECKING:
    from dppipe.planning.plan import Plan
    from dppipe.privacy.budget import Relation
    from dppipe.privacy.release import Release
    from dppipe.spec.spec import Spec

_OTHERS = 40
"""Made-up records beside the canary."""


class ObservedGate(Gate):
    """A gate that keeps what it lets out, and what that was computed from."""

    released: Tensor
    """The last release."""
    bounded: Bounded | None = None
    """What the last noised or selected value was computed to be, before noise."""
    known: Bounded | None = None
    """The value of this world, where it was computed before."""

    def close(self) -> None:
        """End the thread that would write a ledger: each draw has a gate of its own."""
        self._writer.shutdown()

    def add_noise(self, release: Release, compute: Callable[[], Bounded]) -> Tensor:
        """Release a value with noise; one that was computed before is used again."""

        def observed() -> Bounded:
            found = self.known or compute()
            self.bounded = replace(found, value=found.value.clone())
            return replace(found, value=found.value.clone())

        value = super().add_noise(release, observed)
        self.released = value.detach().double().flatten().clone()
        return value

    def select(self, release: Release, scores: Callable[[], Bounded]) -> int:
        """Select a candidate; scores that were computed before are used again."""

        def observed() -> Bounded:
            self.bounded = self.known or scores()
            return self.bounded

        chosen = super().select(release, observed)
        self.released = torch.tensor([float(chosen)], dtype=torch.float64)
        return chosen

    def medians(
        self, release: Release, table: Callable[[], Tensor], *, columns: int, radius: float
    ) -> Tensor:
        """Release medians."""
        value = super().medians(release, table, columns=columns, radius=radius)
        self.released = value.detach().double().flatten().clone()
        return value

    def perturb(
        self,
        release: Release,
        solve: Callable[[Tensor], Bounded],
        *,
        size: int,
        sensitivity: float,
    ) -> Tensor:
        """Release a solution with noise inside."""
        value = super().perturb(release, solve, size=size, sensitivity=sensitivity)
        self.released = value.detach().double().flatten().clone()
        return value


@dataclass
class LearnerSubject:
    """A learner with its plan, on made-up records."""

    spec: Spec
    plan: Plan
    relation: Relation
    columns: Columns
    examples: Row
    module: nn.Module

    @property
    def multiplier(self) -> float:
        """The noise multiplier of the one release."""
        return noise_multiplier(self.plan.releases[0].dp_event)

    def canaries(self) -> list[Canary]:
        """Return scaled inputs with several targets, and some that aren't finite."""
        found = []
        targets = min(4, len(self.examples[0]))
        for number in range(targets):
            row = tuple(column[number : number + 1] for column in self.examples)
            for scale in SCALES:
                name = f"inputs {number + 1} x {scale:g}"
                found.append(Canary(name, scaled_rows(self.columns, row, scale)))
        for value in (0.0, float("nan"), float("inf")):
            found.append(Canary(f"all {value}", scaled_rows(self.columns, row, value, fill=True)))
        return found

    def full(
        self, *, others: int, steps: int, silent: bool = False
    ) -> tuple[MadeUpRecords, LearnerRelease]:
        """Return records, and the learner's release of them."""
        records = MadeUpRecords(
            self.examples, others=_OTHERS, by_users=self.plan.unit == "user", present=False
        )
        return records, LearnerRelease(self, records, silent=silent)


class LearnerRelease:
    """The release of a learner, drawn anew each time."""

    def __init__(self, subject: LearnerSubject, records: MadeUpRecords, *, silent: bool) -> None:
        self._subject = subject
        self._records = records
        self._sources = SilentSources() if silent else NoiseSources(secure=subject.plan.secure)
        self._folder = tempfile.TemporaryDirectory()
        self._known: dict[int, Bounded] = {}
        self.gate: ObservedGate

    def draw(self) -> Tensor:
        """Fit the learner once; return what was released, times its divisor."""
        subject = self._subject
        plan = subject.plan
        gate = ObservedGate(
            NoLedger(), PlannedReleases(plan), subject.relation, plan.unit, sources=self._sources
        )
        world = self._records.world
        gate.known = self._known.get(world)
        self.gate = gate
        try:
            self._fit(gate)
        finally:
            gate.close()
        if gate.bounded is not None:
            self._known[world] = gate.bounded
            return gate.released * gate.bounded.over
        return gate.released

    def _fit(self, gate: ObservedGate) -> None:
        subject = self._subject
        by_users = subject.plan.unit == "user"
        dataset = self._records.dataset
        records = TrainingRecords(dataset, by_users=by_users, may_read=lambda: gate.computing)
        facts = public_facts(subject.spec)
        if facts.records is not None:
            facts = replace(facts, records=self._records.units)
        module = copy.deepcopy(subject.module)
        job = Job(facts, module, records, Path(self._folder.name))
        learner = subject.spec.learner
        if is_built_in(learner):
            learner.fit(job, gate)
            return
        made_up = Unit(subject.examples[0][:2], subject.examples[1][:2])
        closed = TrainingRecords(dataset, by_users=by_users, may_read=lambda: False)
        learner.fit(replace(job, records=closed), PluginGate(gate, records, made_up, module))

    def seconds_each(self) -> float:
        """Return how long a draw takes: the median of a few, which are thrown away."""
        found = []
        for _ in range(TIMED_STEPS):
            started = time.monotonic()
            self.draw()
            found.append(time.monotonic() - started)
        return statistics.median(found)

    def claim(self) -> StepClaim:
        """Return what is claimed of a value with noise on it."""
        self.draw()
        bounded = self.gate.bounded
        if bounded is None:
            raise ValueError("learner: expected a release with noise on a value")
        subject = self._subject
        mechanism = mechanism_of(subject.plan.releases[0].dp_event)
        order = 1 if mechanism == "laplace" else 2
        return StepClaim(
            multiplier=subject.multiplier,
            unit=bounded.sensitivity,
            std=subject.multiplier * bounded.sensitivity,
            counts=0,
            count_std=0.0,
            sizes={"value": bounded.value.numel()},
            groups={"value": 0},
            bounds=(bounded.sensitivity,),
            relation=subject.relation,
            mechanism=mechanism,
            order=order,
            averages=False,
        )


def make_learner_subject(spec: Spec, plan: Plan) -> LearnerSubject:
    """Build what a learner trains, with made-up records in its shapes.

    The releases before the learner's own are left out: made-up inputs are as the model sees them.
    """
    if spec.budget == "none":
        raise ValueError("budget: expected one, got none")
    seed_weights(spec.seed)
    columns, examples = Columns.of(made_up_batch(spec.data, 64))
    before = len(spec.data.preludes)
    own = plan.model_copy(update={"releases": plan.releases[before:]})
    module = untrained_module(spec)
    return LearnerSubject(spec, own, spec.budget.relation, columns, examples, module)
