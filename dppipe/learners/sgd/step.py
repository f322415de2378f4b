"""The private step: the one place where per-example gradients and noise meet.

Read `PrivateStep.__call__` from top to bottom; it follows DP-SGD (Abadi et al. 2016, Algorithm 1):
ask the budget, charge, sample, clip and sum, add noise, divide. The gate asks, charges and adds the
noise (`gate.py`); the charge is durable before anything noisy can be seen. At the end an adaptive
clipper looks at what was released.

Nothing here imports Lightning. Only three things wait for the device: a clipper or schedule that
follows released values, diagnostics, and norms that are estimated (`jl`).
Read next: `sensitivity.py`, how far one unit can move what is noised here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dppipe.clipper_abilities import averages, in_state, next_state, transforms
from dppipe.engine.groups import bound_values, place_bounds
from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.learners.gate import Gate
from dppipe.learners.gating.bounded import Beside, Bounded
from dppipe.learners.gating.upcoming import UpcomingSteps
from dppipe.learners.sgd.buffers import Buffers, zeros_of
from dppipe.learners.sgd.canaries import WatchedStep
from dppipe.learners.sgd.contributions import Contributions
from dppipe.learners.sgd.diagnostics import ClippingDiagnostics
from dppipe.learners.sgd.sensitivity import add_statistics, count_statistics, noise_unit, norm_of

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.learners.records.loader import LogicalBatch
    from dppipe.learners.records.reading import PhysicalBatch
    from dppipe.learners.records.whole_units import UnitOf
    from dppipe.learners.sgd.canaries import Canaries
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.planning.step_plan import StepPlan
    from dppipe.privacy.release import Release

_SHOWN = ("noise_multiplier", "max_grad_norm", "sample_rate")
"""The facts of a step that curves show."""


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
    plan: StepPlan
    engine: Engine
    gate: Gate
    upcoming: UpcomingSteps
    clipper_state: Mapping[str, Any]
    diagnostics: ClippingDiagnostics | None = None
    canaries: Canaries | None = None
    """What an audit of this run has planted; None in an ordinary run."""
    shown: dict[str, float] = field(default_factory=dict, init=False)
    """The sample rate, noise multiplier and bound of the last step."""
    noise_std: float = field(default=0.0, init=False)
    """The standard deviation of the noise on each coordinate of the last step's mean gradient."""

    def __post_init__(self) -> None:
        clipping = self.parts.clipping
        self._unit_of: UnitOf | None = None
        if averages(clipping):
            expected = self.plan.expected_batch_size
            self._unit_of = partial(clipping.slots, expected_batch_size=expected)
        self._like = next(iter(self.engine.parameters.values()), torch.zeros(()))
        self._placed: tuple[Sequence[float], Tensor] = ((), torch.zeros(0))
        self._statistics = 0
        if self.plan.statistics_std is not None:
            self._statistics = count_statistics(clipping, self._place(self._bounds(1)))

    @property
    def taken(self) -> int:
        """The last step of the plan that was taken."""
        return self.upcoming.taken

    def goes_on(self) -> bool:
        """Return whether the next step may be taken."""
        return self.upcoming.goes_on()

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Return the privatised gradient of every trainable parameter.

        `place` moves a physical batch to the training device.
        """
        release = self.gate.next()
        if release is None or release.what != "step":
            planned = f"the planned {self.plan.steps} steps"
            raise BudgetExhausted(
                f"step {self.taken + 1} would exceed the budget or {planned}: refused"
            )
        step = int(release.facts["step"])
        bounds = self._bounds(step)
        limits = self._place(bounds)
        reserved = 0 if self.canaries is None else self.canaries.coordinates
        buffers = zeros_of(self.engine.parameters, counts=self._statistics, canaries=reserved)
        bounded = self._bounded(step, bounds, limits, buffers)

        def compute() -> Bounded:
            contributions = self._contributions(buffers, limits, place=place)
            self._add_up(batch, step, contributions, buffers)
            if self.canaries is not None:
                self._add_canaries(self.canaries, batch, contributions, buffers, bounds)
            return bounded

        charged = self._with_bound(release, bounds)
        self.gate.add_noise(charged, compute)
        self.shown = {name: float(charged.facts[name]) for name in _SHOWN}
        noise_std = bounded.noise_std(self.shown["noise_multiplier"]) / bounded.over
        self.noise_std = noise_std * self.parts.noise.deviation
        if self.canaries is not None:
            self._show(self.canaries, step, bounds, buffers, bounded, place=place)
        return self._adapt(buffers, noise_std=noise_std, expected=bounded.over)

    def _contributions(
        self, buffers: Buffers, limits: Tensor, *, place: Callable[[Any], Any]
    ) -> Contributions:
        """Return what clips the gradients of physical batches and adds them to the buffers."""
        clipper = in_state(self.parts.clipping, self.clipper_state)
        return Contributions(self.engine, place, buffers.sums, limits, clipper)

    def _add_up(
        self, batch: LogicalBatch, step: int, contributions: Contributions, buffers: Buffers
    ) -> None:
        """Draw the step's records, and add up their clipped gradients and statistics."""
        for physical in batch.draw(step, self._unit_of):
            self._add(physical, contributions, buffers)

    def _add(self, physical: PhysicalBatch, contributions: Contributions, buffers: Buffers) -> None:
        added = contributions.add(physical)
        clipper = contributions.clipper
        limits = contributions.bounds
        add_statistics(clipper, added.norms, limits, into=buffers.counts, units=added.units)
        if self.diagnostics is not None:
            self.diagnostics.add(added)

    def _add_canaries(
        self,
        canaries: Canaries,
        batch: LogicalBatch,
        contributions: Contributions,
        buffers: Buffers,
        bounds: Sequence[float],
    ) -> None:
        """Add the canaries that were drawn: to their coordinates, or as rows like any other."""
        drawn = batch.loader.drawn_canaries
        bound = norm_of(bounds, order=self.engine.order)
        canaries.add_(buffers.canaries, drawn, bound=bound)
        rows = canaries.rows(drawn)
        if rows is not None:
            self._add(rows, contributions, buffers)

    def _show(
        self,
        canaries: Canaries,
        step: int,
        bounds: Sequence[float],
        buffers: Buffers,
        bounded: Bounded,
        *,
        place: Callable[[Any], Any],
    ) -> None:
        """Show the audit what was released; the optimizer gets the gradient alone."""

        def clipped(rows: PhysicalBatch) -> Tensor:
            alone = zeros_of(self.engine.parameters)
            self._contributions(alone, self._place(bounds), place=place).add(rows)
            return alone.gradient

        seen = WatchedStep(
            step,
            buffers.canaries.double() * bounded.over,
            buffers.gradient.double() * bounded.over,
            norm_of(bounds, order=self.engine.order),
            bounded.noise_std(self.shown["noise_multiplier"]),
            clipped,
        )
        canaries.watch(seen)

    def _bounded(
        self, step: int, bounds: Sequence[float], limits: Tensor, buffers: Buffers
    ) -> Bounded:
        """Return the step's buffers with what one unit can change in them."""
        unit = noise_unit(self.parts.clipping, bounds, self.gate.relation, order=self.engine.order)
        diagnose = None
        if self.diagnostics is not None:
            diagnose = partial(self.diagnostics.summarise, buffers.gradient, limits)
        return Bounded(
            buffers.released,
            unit,
            over=self.plan.batch(step).expected_batch_size,
            beside=self._beside(buffers.counts),
            buffer=buffers.flat,
            followed=buffers.gradient,
            diagnose=diagnose,
        )

    def _beside(self, counts: Tensor) -> Beside | None:
        """Return an adaptive clipper's counts, with what one unit can change in them.

        All K counts together cost what one would: each gets sqrt(K) times the noise.
        """
        std = self.plan.statistics_std
        if not self._statistics or std is None:
            return None
        return Beside(counts, math.sqrt(self._statistics) / 2, noise_multiplier=2 * std)

    def _adapt(self, buffers: Buffers, *, noise_std: float, expected: float) -> dict[str, Tensor]:
        """Show the clipper what was released; return the gradient in the model's coordinates."""
        clipping = self.parts.clipping
        state = self.clipper_state
        released = {
            # This waits for the device: the next bounds depend on the means.
            "means": tuple(buffers.counts.tolist()) if self._statistics else (),
            "gradient": buffers.sums,
            "noise_std": noise_std,
            "expected_batch_size": expected,
        }
        self.clipper_state = next_state(clipping, state, released)
        if transforms(clipping):
            return clipping.restore(state, buffers.sums)
        return buffers.sums

    def _with_bound(self, release: Release, bounds: Sequence[float]) -> Release:
        """Return the release with the bound that the step clips at, which its row shows."""
        bound = norm_of(bounds, order=self.engine.order)
        return replace(release, facts={**release.facts, "max_grad_norm": bound})

    def close_torn_charge(self) -> None:
        """Charge the step whose row a crash has cut off, although nothing of it was released.

        In an epoch-wise plan the step may have begun an epoch. It is charged as if it had, where
        the plan has another epoch.
        """
        ledger = self.gate.ledger
        # Only the first process has a ledger; all of them count the charge.
        torn, charged = self.gate.ranks.agree((bool(ledger.torn), ledger.step))
        if not torn:
            return
        goes_on = self.taken < self.plan.steps
        step = self.taken + 1 if goes_on else charged + 1
        if step > self.plan.steps:
            raise PrivacyRefusal(
                f"ledger: expected at most {self.plan.steps} steps, got a torn row after them. "
                "It isn't a run's."
            )
        noise = self.upcoming.noise
        admitted = noise.multiplier(step)
        multiplier = admitted or self.plan.noise_multiplier(step)
        release = self._with_bound(self.upcoming.step(step, multiplier), self._bounds(step))
        ledger.close_torn(self.gate.charge_of(release))
        if admitted is not None:
            noise.charge(release.event)
        if goes_on:
            self.upcoming.taken = step

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
