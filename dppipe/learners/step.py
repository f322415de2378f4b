"""The private step: the one place where per-example gradients and noise meet, in the order of DP-SGD's own algorithm.

Read `PrivateStep.__call__` from top to bottom: ask the budget, charge, sample, clip and sum, add noise, divide (Abadi et al.
2016, Algorithm 1, with the charge durable before anything noisy can be seen), and let an adaptive clipper look at what was
released. Nothing here imports Lightning. Nothing waits for the device but to read what was released, where a clipper or a
schedule follows it, for diagnostics, and where norms are estimated (`jl`). Read next: `releases.py`, how far one unit can move
what is noised here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from dppipe.clipper_abilities import Averages, Transforms, in_state, next_state
from dppipe.engine.groups import bound_values, place_bounds
from dppipe.engine.units import make_units
from dppipe.errors import BudgetExhausted, PrivacyRefusal
from dppipe.learners.charging import charging
from dppipe.learners.contributions import Contributions
from dppipe.learners.diagnostics import ClippingDiagnostics
from dppipe.learners.pace import CommittedPace, Pace
from dppipe.learners.ranks import Ranks
from dppipe.learners.releases import add_statistics, count_statistics, noise_unit, norm_of
from dppipe.randomness.gaussian import GaussianStream, NoiseSource
from dppipe.randomness.streams import stream_key
from dppipe.runs.follower import NoLedger
from dppipe.runs.ledger import Charge, Ledger

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.learners.records.loader import LogicalBatch
    from dppipe.planning.plan import Plan
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.privacy.budget import Relation


@dataclass
class PrivateStep:
    """One logical step of DP training.

    Guarantee: the gradient it gives is the clipped sum of a batch drawn by `parts.sampler`, plus Gaussian noise of standard
    deviation (or Laplace noise of scale) noise multiplier x sensitivity, over a public constant; its event, built from the same
    numbers, was durable in the ledger before. An adaptive clipper's statistics are noised too, and the gradient correspondingly
    more, so that both together are the one event. The step that the plan doesn't hold is refused before a record is drawn.
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
    pace: Pace | None = None
    """What says each step's noise; the plan, where nothing else is given."""
    max_grad_norm: float = field(default=0.0, init=False)
    """The norm of the bounds that the last step was clipped with."""
    noise_multiplier: float = field(default=0.0, init=False)
    """The accounted multiplier of the last step."""
    taken: int = field(default=0, init=False)
    """The last step of the plan that is behind."""

    def __post_init__(self) -> None:
        clipping, expected = self.parts.clipping, self.plan.expected_batch_size
        self.taken = self.plan.start_after(self.ledger.step)
        self._pace = self.pace or CommittedPace(self.plan)
        self._clerk = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._slots = (
            partial(clipping.slots, expected_batch_size=expected)
            if isinstance(clipping, Averages)
            else None
        )
        self._like = next(iter(self.engine.parameters.values()), torch.zeros(()))
        self._placed: tuple[Sequence[float], Tensor] = ((), torch.zeros(0))
        self._statistics = (
            count_statistics(clipping, self._place(self._bounds(1)))
            if self.plan.statistics_std is not None
            else 0
        )
        # All K counts together cost what one would: each gets sqrt(K) times the noise.
        self._count_std = math.sqrt(self._statistics) * (self.plan.statistics_std or 0.0)

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Give the privatised gradient of every trainable parameter; `place` moves a piece to the training device."""
        step, state, clipping = self.taken + 1, self.clipper_state, self.parts.clipping
        noise_multiplier = self._pace.noise(step)
        if noise_multiplier is None:
            raise BudgetExhausted(
                f"step {step} would exceed the budget or the planned {self.plan.steps} steps: refused"
            )
        bounds, clipper, expected = (
            self._bounds(step),
            in_state(clipping, state),
            self.plan.batch(step).expected_batch_size,
        )
        unit, limits = (
            noise_unit(clipping, bounds, self.relation, order=self.engine.order),
            self._place(bounds),
        )
        noise_std = self.plan.gradient_multiplier(noise_multiplier) * unit
        flat, gradient, sums, counts = zeros_of(self.engine.parameters, counts=self._statistics)
        charge = self.charge_of(step, bounds, noise_multiplier)
        self._pace.charge(charge.event)
        self.taken = (
            step  # whatever happens from here on, the step is charged and can't be taken again
        )
        with charging(
            self.ledger, charge, clerk=self._clerk
        ):  # durable at its end: the disk works while the model does
            contributions = Contributions(self.engine, place, sums, limits, clipper)
            for piece in batch.draw(step, self._slots):
                added = contributions.add(piece)
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
        self.ranks.hand_out_(flat)

        self.noise_multiplier = noise_multiplier
        self._pace.see(gradient)
        means = (
            tuple(counts.tolist()) if self._statistics else ()
        )  # waits for the device: the next bounds hang on them
        released = {"means": means, "gradient": sums, "noise_std": noise_std / expected}
        released["expected_batch_size"] = expected
        self.clipper_state = next_state(clipping, state, released)
        return clipping.restore(state, sums) if isinstance(clipping, Transforms) else sums

    def goes_on(self) -> bool:
        """Look ahead: whether the next step may be taken."""
        return self._pace.noise(self.taken + 1) is not None

    def charge_of(self, step: int, bounds: Sequence[float], noise_multiplier: float) -> Charge:
        """Say what a step costs: its event is built from the very multiplier and rate that it is drawn with."""
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
        """Charge the step whose row a crash has cut off: nothing of it was released, and it stays charged all the same.

        In an epoch-wise plan it may have begun an epoch, and is charged as if it had, where the plan holds another epoch.
        """
        if self.ledger.torn:
            goes_on = self.taken < self.plan.steps
            step = self.taken + 1 if goes_on else self.ledger.step + 1
            if step > self.plan.steps:
                raise PrivacyRefusal(
                    f"ledger: expected at most {self.plan.steps} steps, got a torn row after them. It isn't a run's."
                )
            admitted = self._pace.noise(step)
            charge = self.charge_of(
                step, self._bounds(step), admitted or self.plan.noise_multiplier(step)
            )
            self.ledger.close_torn(charge)
            if admitted is not None:
                self._pace.charge(charge.event)
            self.taken = step if goes_on else self.taken

    def _bounds(self, step: int) -> tuple[float, ...]:  # -> [G]
        """Give a step's bounds as numbers of the host, where the noise and the charge need them."""
        factor = self.plan.bound_factor(step)
        return bound_values(
            self.engine.clipper,
            self.engine.groups,
            self.clipper_state,
            like=self._like,
            factor=factor,
        )

    def _place(self, bounds: Sequence[float]) -> Tensor:  # [G] -> [G]
        """Give bounds on the device, where sums are clipped: copied over when they change."""
        if self._placed[0] != bounds:
            self._placed = bounds, place_bounds(bounds, like=self._like)
        return self._placed[1]


@dataclass
class PlainStep:
    """One logical step of the non-private baseline: the same batches and divisor, no clipping and no noise."""

    plan: Plan
    network: nn.Module
    per_sample_loss: Callable[[nn.Module, Any], Tensor]
    ranks: Ranks = field(default_factory=Ranks)
    taken: int = 0
    """The last step of the plan that is behind."""

    def goes_on(self) -> bool:
        """Look ahead: whether the plan holds another step."""
        return self.taken < self.plan.steps

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Give the ordinary gradient of the batch's summed loss over the expected batch size."""
        trainable = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        flat, _, sums, _ = zeros_of(trainable)
        self.taken += 1
        for piece in batch.draw(self.taken):
            if not piece.parts:
                continue
            losses = torch.cat(
                [self.per_sample_loss(self.network, place(part)) for part in piece.parts]
            )
            units = piece.units
            loss = (
                losses.sum()
                if units is None
                else make_units(units, None, like=losses).average(losses).sum()
            )
            for name, gradient in zip(
                trainable,
                torch.autograd.grad(loss, list(trainable.values()), allow_unused=True),
                strict=True,
            ):
                if gradient is not None:
                    sums[name] += gradient
        self.ranks.sum_(flat)
        flat /= self.plan.batch(self.taken).expected_batch_size
        self.ranks.hand_out_(flat)
        return sums


class Buffers(NamedTuple):
    """One flat buffer, so that it is summed over ranks and handed out at once, and views of its parts."""

    flat: Tensor
    gradient: Tensor
    """The part that the gradients of all parameters share."""
    sums: dict[str, Tensor]
    """A view of it for each parameter."""
    counts: Tensor
    """The rest: one value for each statistic."""


def zeros_of(parameters: Mapping[str, nn.Parameter], *, counts: int = 0) -> Buffers:
    """Give a buffer of zeros, float32 or wider."""
    dtype = torch.float32
    for parameter in parameters.values():
        dtype = torch.promote_types(dtype, parameter.dtype)
    device = next((p.device for p in parameters.values()), torch.device("cpu"))
    size = sum(p.numel() for p in parameters.values())
    flat = torch.zeros(size + counts, dtype=dtype, device=device)
    pieces = torch.split(flat[:size], [p.numel() for p in parameters.values()])
    sums = {
        name: piece.view_as(p) for (name, p), piece in zip(parameters.items(), pieces, strict=True)
    }
    return Buffers(flat, flat[:size], sums, flat[size:])
