"""The private step: the one place where per-example gradients and noise meet.

Read `PrivateStep.__call__` from top to bottom; it follows DP-SGD (Abadi et al. 2016, Algorithm 1):
ask the budget, charge, sample, clip and sum, add noise, divide. The charge is durable before
anything noisy can be seen. At the end an adaptive clipper looks at what was released.

Nothing here imports Lightning. Only three things wait for the device: a clipper or schedule that
follows released values, diagnostics, and norms that are estimated (`jl`).
Read next: `releases.py`, how far one unit can move what is noised here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.clipper_abilities import Averages, Transforms, in_state, next_state
from dppipe.engine.groups import bound_values, place_bounds
from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.learners.buffers import zeros_of
from dppipe.learners.charging import charging
from dppipe.learners.contributions import Contributions
from dppipe.learners.diagnostics import ClippingDiagnostics
from dppipe.learners.ranks import Ranks
from dppipe.learners.releases import add_statistics, count_statistics, noise_unit, norm_of
from dppipe.learners.step_noise import PlannedNoise, StepNoise
from dppipe.randomness.gaussian import GaussianStream, NoiseSource
from dppipe.randomness.streams import stream_key
from dppipe.runs.follower import NoLedger
from dppipe.runs.ledger import Charge, Ledger

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.learners.records.loader import LogicalBatch
    from dppipe.learners.records.whole_units import UnitOf
    from dppipe.planning.plan import Plan
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.privacy.budget import Relation


@dataclass
class PrivateStep:
    """One logical step of DP training.

    Guarantees:
    - The gradient is the clipped sum of a batch that `parts.sampler` drew, plus Gaussian noise of
      standard deviation (or Laplace noise of scale) noise multiplier x sensitivity, divided by a
      public constant.
    - The step's event is built from the same numbers, and was durable in the ledger before.
    - An adaptive clipper's statistics are noised too, and the gradient correspondingly more, so
      that both together are the one event.
    - A step that isn't in the plan is refused before a record is drawn.
    """

    parts: PrivateParts
    relation: Relation
    plan: Plan
    engine: Engine
    ledger: Ledger | NoLedger
    noise: NoiseSource
    clipper_state: Mapping[str, Any]
    ranks: Ranks = field(default_factory=Ranks)
    count_noise: GaussianStream = field(default_factory=lambda: GaussianStream(stream_key("count")))
    diagnostics: ClippingDiagnostics | None = None
    step_noise: StepNoise | None = None
    """Decides each step's noise multiplier; by default the plan does."""
    max_grad_norm: float = field(default=0.0, init=False)
    """The norm of the bounds that the last step was clipped with."""
    noise_multiplier: float = field(default=0.0, init=False)
    """The accounted multiplier of the last step."""
    taken: int = field(default=0, init=False)
    """The last step of the plan that was taken."""

    def __post_init__(self) -> None:
        clipping = self.parts.clipping
        self.taken = self.plan.start_after(self.ledger.step)
        self._multipliers = self.step_noise or PlannedNoise(self.plan)
        self._ledger_writer = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._unit_of: UnitOf | None = None
        if isinstance(clipping, Averages):
            expected = self.plan.expected_batch_size
            self._unit_of = partial(clipping.slots, expected_batch_size=expected)
        self._like = next(iter(self.engine.parameters.values()), torch.zeros(()))
        self._placed: tuple[Sequence[float], Tensor] = ((), torch.zeros(0))
        self._statistics = 0
        if self.plan.statistics_std is not None:
            self._statistics = count_statistics(clipping, self._place(self._bounds(1)))
        # All K counts together cost what one would: each gets sqrt(K) times the noise.
        self._count_std = math.sqrt(self._statistics) * (self.plan.statistics_std or 0.0)

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Return the privatised gradient of every trainable parameter.

        `place` moves a physical batch to the training device.
        """
        step = self.taken + 1
        noise_multiplier = self._multipliers.multiplier(step)
        if noise_multiplier is None:
            planned = f"the planned {self.plan.steps} steps"
            raise BudgetExhausted(f"step {step} would exceed the budget or {planned}: refused")
        clipping = self.parts.clipping
        bounds = self._bounds(step)
        clipper = in_state(clipping, self.clipper_state)
        expected = self.plan.batch(step).expected_batch_size
        unit = noise_unit(clipping, bounds, self.relation, order=self.engine.order)
        limits = self._place(bounds)
        noise_std = self.plan.gradient_multiplier(noise_multiplier) * unit
        flat, gradient, sums, counts = zeros_of(self.engine.parameters, counts=self._statistics)
        charge = self.charge_of(step, bounds, noise_multiplier)
        self._multipliers.charge(charge.event)
        # Whatever happens from here on, the step is charged and can't be taken again.
        self.taken = step
        # The row is durable at the end of the block: the disk works while the model does.
        with charging(self.ledger, charge, writer=self._ledger_writer):
            contributions = Contributions(self.engine, place, sums, limits, clipper)
            for physical in batch.draw(step, self._unit_of):
                added = contributions.add(physical)
                add_statistics(clipper, added.norms, limits, into=counts, units=added.units)
                if self.diagnostics is not None:
                    self.diagnostics.add(added)
            self.ranks.sum_(flat)

        if self.diagnostics is not None:
            self.diagnostics.summarise(gradient, bounds=limits, noise_std=noise_std)
        if self.ranks.first:
            self.noise.add_(gradient, std=noise_std, over=expected)
            if self._statistics:
                self.count_noise.add_(counts, std=self._count_std, over=expected)
        self.ranks.broadcast_(flat)

        self.noise_multiplier = noise_multiplier
        self._multipliers.observe(gradient)
        return self._adapt(sums, counts, noise_std=noise_std / expected, expected=expected)

    def _adapt(
        self, sums: dict[str, Tensor], counts: Tensor, *, noise_std: float, expected: float
    ) -> dict[str, Tensor]:
        """Show the clipper what was released; return the gradient in the model's coordinates."""
        clipping = self.parts.clipping
        state = self.clipper_state
        released = {
            # This waits for the device: the next bounds depend on the means.
            "means": tuple(counts.tolist()) if self._statistics else (),
            "gradient": sums,
            "noise_std": noise_std,
            "expected_batch_size": expected,
        }
        self.clipper_state = next_state(clipping, state, released)
        return clipping.restore(state, sums) if isinstance(clipping, Transforms) else sums

    def goes_on(self) -> bool:
        """Return whether the next step may be taken."""
        return self._multipliers.multiplier(self.taken + 1) is not None

    def charge_of(self, step: int, bounds: Sequence[float], noise_multiplier: float) -> Charge:
        """Return what a step costs; its event has the multiplier and rate that the step uses."""
        self.max_grad_norm = norm_of(bounds, order=self.engine.order)
        rate = self.plan.batch(step).sample_rate
        return Charge(
            step=step,
            event=self.parts.event(noise_multiplier, rate=rate),
            mechanism=self.plan.mechanism,
            sampler=self.plan.sampler,
            sample_rate=rate,
            noise_multiplier=noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            relation=self.relation,
            unit=self.plan.unit,
            count=self.plan.charges(step),
            epsilon=self.plan.epsilon_after(step),
        )

    def close_torn_charge(self) -> None:
        """Charge the step whose row a crash has cut off, although nothing of it was released.

        In an epoch-wise plan the step may have begun an epoch. It is charged as if it had, where
        the plan has another epoch.
        """
        if not self.ledger.torn:
            return
        goes_on = self.taken < self.plan.steps
        step = self.taken + 1 if goes_on else self.ledger.step + 1
        if step > self.plan.steps:
            raise PrivacyRefusal(
                f"ledger: expected at most {self.plan.steps} steps, got a torn row after them. "
                "It isn't a run's."
            )
        admitted = self._multipliers.multiplier(step)
        multiplier = admitted or self.plan.noise_multiplier(step)
        charge = self.charge_of(step, self._bounds(step), multiplier)
        self.ledger.close_torn(charge)
        if admitted is not None:
            self._multipliers.charge(charge.event)
        if goes_on:
            self.taken = step

    def _bounds(self, step: int) -> tuple[float, ...]:  # -> [G]
        """Return the step's clipping bounds as Python floats, for the noise and the charge."""
        factor = self.plan.bound_factor(step)
        return bound_values(
            self.engine.clipper,
            self.engine.groups,
            self.clipper_state,
            like=self._like,
            factor=factor,
        )

    def _place(self, bounds: Sequence[float]) -> Tensor:  # [G] -> [G]
        """Return bounds on the device that clips gradients: copied only when they change."""
        if self._placed[0] != bounds:
            self._placed = bounds, place_bounds(bounds, like=self._like)
        return self._placed[1]
