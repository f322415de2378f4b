"""The private step: the one place where per-example gradients and noise meet, in the order of DP-SGD's own algorithm.

Read `PrivateStep.__call__` from top to bottom: ask the budget, sample, clip and sum, charge, add noise, divide (Abadi et al.
2016, Algorithm 1, with the charge made durable before anything noisy can be seen). Nothing here imports Lightning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dppipe.errors import BudgetExhausted
from dppipe.training.follower import Tally
from dppipe.training.ledger import Charge, Ledger
from dppipe.training.ranks import Ranks

if TYPE_CHECKING:
    from dppipe.engine import Engine
    from dppipe.planning.plan import Plan
    from dppipe.planning.privacy_plan import PrivateParts
    from dppipe.privacy.budget import Relation
    from dppipe.randomness.gaussian import GaussianStream
    from dppipe.training.draws import LogicalBatch


@dataclass
class PrivateStep:
    """One logical step of DP training.

    Guarantee: the gradient it gives is the clipped sum of a batch drawn by `parts.sampler`, plus Gaussian noise of standard
    deviation noise multiplier x sensitivity, over a public constant; its event, built from the same numbers, was durable in
    the ledger before. The step that the plan doesn't hold is refused before a record is drawn.
    """

    parts: PrivateParts
    relation: Relation
    plan: Plan
    engine: Engine
    ledger: Ledger | Tally
    noise: GaussianStream
    clipper_state: Mapping[str, Any]
    ranks: Ranks = field(default_factory=Ranks)

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Give the privatised gradient of every trainable parameter; `place` moves a piece to the training device."""
        step = self.ledger.rows + 1
        if step > self.plan.steps:
            raise BudgetExhausted(f"step {step} would exceed the planned {self.plan.steps} steps and is refused")
        flat, sums = zeros_of(self.engine.parameters)
        bounds = self.engine.bounds(self.clipper_state)
        for piece in batch.draw():
            self.engine.accumulate(place(piece), sums, bounds=bounds)
        self.ranks.sum_(flat)

        noise_multiplier, sensitivity = self.plan.noise_multiplier(step), float(bounds.double().norm())
        self.ledger.charge(self.charge_of(step, noise_multiplier=noise_multiplier, sensitivity=sensitivity))
        if self.ranks.first:
            self.noise.add_(flat, std=noise_multiplier * sensitivity)
        flat /= self.plan.expected_batch_size
        self.ranks.hand_out_(flat)
        return sums

    def charge_of(self, step: int, *, noise_multiplier: float, sensitivity: float) -> Charge:
        """Say what a step costs: its event is built from the very multiplier that its noise is drawn with."""
        return Charge(
            step=step,
            event=self.parts.event(noise_multiplier, rate=self.plan.sample_rate),
            mechanism=self.plan.mechanism,
            sampler=self.plan.sampler,
            sample_rate=self.plan.sample_rate,
            noise_multiplier=noise_multiplier,
            max_grad_norm=sensitivity,
            relation=self.relation,
            unit=self.plan.unit,
            count=1,
            epsilon=self.plan.epsilon_after(step),
        )

    def close_torn_charge(self) -> None:
        """Charge the step whose row a crash has cut off: nothing of it was released, and it stays charged all the same."""
        if self.ledger.torn:
            step, sensitivity = self.ledger.rows + 1, float(self.engine.bounds(self.clipper_state).double().norm())
            noise_multiplier = self.plan.noise_multiplier(step)
            self.ledger.close_torn(self.charge_of(step, noise_multiplier=noise_multiplier, sensitivity=sensitivity))


@dataclass
class PlainStep:
    """One logical step of the non-private baseline: the same batches and divisor, no clipping and no noise."""

    plan: Plan
    network: nn.Module
    per_sample_loss: Callable[[nn.Module, Any], Tensor]
    ranks: Ranks = field(default_factory=Ranks)

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Give the ordinary gradient of the batch's summed loss over the expected batch size."""
        trainable = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        flat, sums = zeros_of(trainable)
        for piece in batch.draw():
            loss = self.per_sample_loss(self.network, place(piece)).sum()
            for name, gradient in zip(
                trainable, torch.autograd.grad(loss, list(trainable.values()), allow_unused=True), strict=True
            ):
                if gradient is not None:
                    sums[name] += gradient
        self.ranks.sum_(flat)
        flat /= self.plan.expected_batch_size
        self.ranks.hand_out_(flat)
        return sums


def zeros_of(parameters: Mapping[str, nn.Parameter]) -> tuple[Tensor, dict[str, Tensor]]:
    """Give one flat buffer of zeros, float32 or wider, and a view of it for each parameter."""
    dtype = torch.float32
    for parameter in parameters.values():
        dtype = torch.promote_types(dtype, parameter.dtype)
    device = next((p.device for p in parameters.values()), torch.device("cpu"))
    flat = torch.zeros(sum(p.numel() for p in parameters.values()), dtype=dtype, device=device)
    pieces = torch.split(flat, [p.numel() for p in parameters.values()])
    return flat, {name: piece.view_as(p) for (name, p), piece in zip(parameters.items(), pieces, strict=True)}
