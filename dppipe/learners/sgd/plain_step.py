"""The step of the non-private baseline: the same batches and divisor, no clipping and no noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from dppipe.engine.units import make_units
from dppipe.learners.ranks import Ranks
from dppipe.learners.sgd.buffers import zeros_of

if TYPE_CHECKING:
    from dppipe.learners.records.loader import LogicalBatch
    from dppipe.learners.records.reading import PhysicalBatch
    from dppipe.planning.step_plan import StepPlan


@dataclass
class PlainStep:
    """One logical step without a budget."""

    noise_std: ClassVar[float] = 0.0
    """The noise on each coordinate of a gradient: none."""

    plan: StepPlan
    network: nn.Module
    per_sample_loss: Callable[[nn.Module, Any], Tensor]
    ranks: Ranks = field(default_factory=Ranks)
    taken: int = 0
    """The last step of the plan that was taken."""

    def goes_on(self) -> bool:
        """Return whether the plan has another step."""
        return self.taken < self.plan.steps

    def __call__(self, batch: LogicalBatch, *, place: Callable[[Any], Any]) -> dict[str, Tensor]:
        """Return the ordinary gradient of the batch's summed loss over the expected batch size."""
        trainable = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        buffers = zeros_of(trainable)
        flat = buffers.flat
        sums = buffers.sums
        self.taken += 1
        for physical in batch.draw(self.taken):
            if physical.parts:
                self._add(physical, trainable, place=place, into=sums)
        self.ranks.sum_(flat)
        flat /= self.plan.batch(self.taken).expected_batch_size
        self.ranks.broadcast_(flat)
        return sums

    def _add(
        self,
        physical: PhysicalBatch,
        trainable: Mapping[str, nn.Parameter],
        *,
        place: Callable[[Any], Any],
        into: dict[str, Tensor],
    ) -> None:
        parts = [self.per_sample_loss(self.network, place(part)) for part in physical.parts]
        losses = torch.cat(parts)
        if physical.units is not None:
            losses = make_units(physical.units, None, like=losses).average(losses)
        parameters = list(trainable.values())
        gradients = torch.autograd.grad(losses.sum(), parameters, allow_unused=True)
        for name, gradient in zip(trainable, gradients, strict=True):
            if gradient is not None:
                into[name] += gradient
