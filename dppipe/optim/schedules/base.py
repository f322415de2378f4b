"""What a schedule is: a factor over a run, counted in logical steps, on the learning rate, a batch size or a clipping bound.

Warm-up is handled here, once: it raises the factor in a straight line over the first share of the run, and the kind's `factor`
governs the rest. A decay to 0 would get there after the last step, not at it: a step of rate 0 would be paid for in vain.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dppipe.component import Component, Field

if TYPE_CHECKING:
    from torch.optim import Optimizer as TorchOptimizer
    from torch.optim.lr_scheduler import LambdaLR


class LRSchedule(Component):
    """How a factor, on the learning rate for one, moves over a run."""

    warmup: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The share of the run over which the factor rises to its full size.",
    )

    @property
    def moves(self) -> bool:
        """Whether the factor changes at all, so that the number of steps has to be known."""
        return self.kind != "constant" or self.warmup > 0

    def factor(self, progress: float) -> float:
        """Give the factor: progress is 0.0 after the warm-up and would be 1.0 after the last step."""
        raise NotImplementedError

    def factor_at(self, step: int, *, steps: int) -> float:
        """Give the factor of a step, counted from 0, in a run of `steps` steps."""
        rising = round(self.warmup * steps)
        if step < rising:
            return self.factor(0.0) * (step + 1) / (rising + 1)
        return self.factor(min(1.0, (step - rising) / max(1, steps - rising)))

    def build(self, optimizer: TorchOptimizer, steps: int) -> LambdaLR:
        """Build the scheduler of a run of `steps` logical steps; it is stepped once after each."""
        from torch.optim.lr_scheduler import LambdaLR

        return LambdaLR(optimizer, partial(self.factor_at, steps=steps))


def factors_of(schedule: LRSchedule | None, *, steps: int) -> list[float]:
    """Return the factor of each step in a run of `steps` steps; 1 where there is no schedule."""
    if schedule is None:
        return [1.0] * steps
    return [schedule.factor_at(step, steps=steps) for step in range(steps)]
