"""What a schedule is: a factor at each logical step of a run.

It multiplies the learning rate, the batch size or the clipping bound. Warm-up is handled here: it
raises the factor in a straight line over the first share of the run; then the kind's `factor`
applies. A decay to 0 reaches 0 after the last step, not at it: a step of rate 0 would cost privacy
for nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dppipe.component import Component, Field

if TYPE_CHECKING:
    from torch.optim import Optimizer as TorchOptimizer
    from torch.optim.lr_scheduler import LambdaLR


class LRSchedule(Component):
    """How a factor, such as that on the learning rate, changes over a run."""

    warmup: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The share of the run over which the factor rises to its full size.",
    )

    @property
    def moves(self) -> bool:
        """Whether the factor changes, so that the number of steps has to be known."""
        return self.kind != "constant" or self.warmup > 0

    def factor(self, progress: float) -> float:
        """Return the factor: progress is 0.0 after the warm-up and 1.0 just after the last step."""
        raise NotImplementedError

    def factor_at(self, step: int, *, steps: int) -> float:
        """Return the factor of a step, counted from 0, in a run of `steps` steps."""
        rising = round(self.warmup * steps)
        if step < rising:
            return self.factor(0.0) * (step + 1) / (rising + 1)
        progress = (step - rising) / max(1, steps - rising)
        return self.factor(min(1.0, progress))

    def build(self, optimizer: TorchOptimizer, steps: int) -> LambdaLR:
        """Build the scheduler of a run of `steps` logical steps; it is stepped after each."""
        from torch.optim.lr_scheduler import LambdaLR

        return LambdaLR(optimizer, partial(self.factor_at, steps=steps))


def factors_of(schedule: LRSchedule | None, *, steps: int) -> list[float]:
    """Return the factor of each step in a run of `steps` steps; 1 where there is no schedule."""
    if schedule is None:
        return [1.0] * steps
    return [schedule.factor_at(step, steps=steps) for step in range(steps)]
