"""What is audited: a spec's own model, clipper, sampler and noise, on made-up records.

Nothing of the data is read. The number of records, and the noise, come from the spec's plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dppipe.audit.probes.canaries import Canary, Evaluated, make_canaries
from dppipe.audit.probes.made_up_records import Columns, MadeUpRecords, Row
from dppipe.audit.probes.observed_step import ObservedStep, make_loader, observe_step
from dppipe.clipper_abilities import adapts, first_state
from dppipe.engine import Engine
from dppipe.errors import UsageError
from dppipe.learners.inputs.model_inputs import made_up_batch
from dppipe.lightning.isolation.replica import Replica
from dppipe.lightning.networks import from_clean_state, network_and_loss
from dppipe.noise import Constant
from dppipe.pipeline.run import build_module
from dppipe.pipeline.seeding import seed_weights
from dppipe.planning.parts import parts_of
from dppipe.planning.plan import CurvePoint
from dppipe.planning.step_runs import NoiseRun
from dppipe.sampling import FullBatch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dppipe.engine.contracts import PerSampleLoss
    from dppipe.planning.parts import PrivateParts
    from dppipe.planning.step_plan import StepPlan
    from dppipe.privacy.budget import Relation
    from dppipe.sampling.base import Sampler
    from dppipe.spec.spec import Spec

_EXAMPLES = 64
"""How many different examples are made up."""
_PHYSICAL = 8
"""How many records go through the model at once: few, so that a step has several pieces."""
_WARM_UP = 3
"""How many steps an adaptive clipper takes before its state is held: its first one is special."""


@dataclass
class Subject:
    """A private step that can be set up in many ways."""

    parts: PrivateParts
    plan: StepPlan
    relation: Relation
    engine: Engine
    network: nn.Module
    loss: PerSampleLoss
    """The loss of each example without placeholders."""
    columns: Columns
    examples: Row
    """Made-up examples, one tensor for each column."""
    clipper_state: Mapping[str, Any]

    @property
    def by_users(self) -> bool:
        """Whether users are the unit."""
        return self.plan.max_records_per_user is not None

    @property
    def canary_rows(self) -> int:
        """How many records a canary has: a user is full of them."""
        return min(self.plan.max_records_per_user or 1, _EXAMPLES)

    @property
    def multiplier(self) -> float:
        """The smallest noise multiplier of the plan's steps."""
        return min(run.noise_multiplier for run in self.plan.noise)

    def canaries(self) -> list[Canary]:
        """Return canaries for the model."""
        return make_canaries(
            Evaluated(self.columns, self.examples, self.network, self.loss, self.engine.parameters)
        )

    def full(
        self, *, others: int, steps: int, silent: bool = False
    ) -> tuple[MadeUpRecords, ObservedStep]:
        """Return records and a step that draws all of them, so that the canary is always in."""
        return self.set_up(
            FullBatch(),
            rate=1.0,
            multiplier=self.multiplier,
            others=others,
            steps=steps,
            silent=silent,
        )

    def set_up(
        self,
        sampler: Sampler,
        *,
        rate: float,
        multiplier: float,
        others: int,
        steps: int,
        silent: bool = False,
    ) -> tuple[MadeUpRecords, ObservedStep]:
        """Return made-up records, and a private step of them.

        Args:
            sampler: Draws the records of each step.
            rate: At this rate.
            multiplier: The noise multiplier of every step.
            others: How many units there are beside the canary's.
            steps: How many steps can be taken.
            silent: Whether there is no noise.
        """
        records = MadeUpRecords(
            self.examples, others=others, canary_rows=self.canary_rows, by_users=self.by_users
        )
        plan = probe_plan(
            self.plan, sampler, rate=rate, multiplier=multiplier, units=1 + others, steps=steps
        )
        noise = Constant(noise_multiplier=multiplier, mechanism=plan.mechanism, secure=plan.secure)
        parts = replace(self.parts, sampler=sampler, noise=noise, preludes=())
        loader = make_loader(records.dataset, parts, plan)
        loader.physical_batch_size = _PHYSICAL
        step = observe_step(
            parts,
            plan,
            self.engine,
            loader,
            relation=self.relation,
            clipper_state=self.clipper_state,
            silent=silent,
        )
        return records, step

    def warm_up(self) -> None:
        """Let a clipper that learns from releases see a few, without noise."""
        if not adapts(self.parts.clipping):
            return
        records, step = self.full(others=_PHYSICAL, steps=_WARM_UP, silent=True)
        records.hold(tuple(column[:1] for column in self.examples))
        for _ in range(_WARM_UP):
            step.draw()
            step.clipper_state = step.next_state
        self.clipper_state = step.clipper_state


def probe_plan(
    plan: StepPlan,
    sampler: Sampler,
    *,
    rate: float,
    multiplier: float,
    units: int,
    steps: int,
    epoch: int = 1,
) -> StepPlan:
    """Return a run's plan with other batches, and enough steps of one noise multiplier."""
    return plan.model_copy(
        update={
            "records": units,
            "releases": (),
            "steps": steps,
            "schedule": "committed",
            "steps_per_epoch": epoch,
            "epochwise": sampler.epochwise,
            "sampler": sampler.kind,
            "sample_rate": rate,
            "batches": (),
            "bounds": (),
            "noise": (NoiseRun(noise_multiplier=multiplier, steps=steps),),
            "curve": (CurvePoint(step=steps, epsilon=0.0),),
            "diagnostics": "off",
        }
    )


def make_subject(
    spec: Spec, plan: StepPlan, *, weights: Mapping[str, Tensor] | None = None
) -> Subject:
    """Build a spec's model on made-up input, and prepare its engine.

    Args:
        spec: What is audited.
        plan: The spec's plan.
        weights: The network's tensors; those that training would start from, if None.
    """
    if spec.budget == "none":
        raise UsageError(
            "budget: expected a privacy budget to audit, got none: nothing is claimed."
        )
    if plan.block > 1:
        raise UsageError(
            "spec: expected a budget, and noise that is independent from step to step. No probe "
            "knows another."
        )
    seed_weights(spec.seed)
    network, loss = network_and_loss(build_module(spec, steps=1))
    if weights is not None:
        network.load_state_dict(dict(weights))
    columns, examples = Columns.of(made_up_batch(spec.data, _EXAMPLES))
    replica = Replica(network)
    evaluated = from_clean_state(columns.masked(loss), replica)
    parts = parts_of(spec)
    order: Literal[1, 2] = 1 if parts.noise.mechanism == "laplace" else 2
    engine = Engine(replica.module, evaluated, parts.clipping, order=order)
    relation = spec.budget.relation
    whole = from_clean_state(loss, replica)
    state = first_state(parts.clipping, engine.groups.sizes)
    subject = Subject(
        parts, plan, relation, engine, replica.module, whole, columns, examples, state
    )
    subject.warm_up()
    return subject
