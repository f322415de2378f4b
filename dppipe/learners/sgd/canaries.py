"""Canaries in the private step: what an audit of one run plants, and what it is shown.

A canary is a unit that the auditor makes up. A secret coin decides whether it is in the training.
The sampler draws from the n real units and the m canaries in one call; a canary that isn't in is
drawn all the same and adds nothing, so that coins change neither n nor the rate. The plan's n,
divisor and delta stay those of the real units. Without an audit nothing here is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.records.reading import Indices, PhysicalBatch
    from dppipe.planning.step_plan import StepPlan


@dataclass(frozen=True)
class WatchedStep:
    """What a step has let out, before the optimizer gets its part of it."""

    step: int
    coordinates: Tensor
    """`[m]`: the noisy sums of reserved coordinates; empty where there are none."""
    gradient: Tensor
    """`[n]`: the noisy sum of all gradients."""
    bound: float
    """The norm of the clipping bounds: the most that one unit may add to the sum."""
    noise: float
    """The standard deviation of the noise on the sums, or its scale under Laplace noise."""
    clipped: Callable[[PhysicalBatch], Tensor]
    """Returns what some rows add to the sum at the step's weights: `[n]`, without noise."""


class Canaries(Protocol):
    """The canaries of one run.

    Guarantee: whoever plants them makes the rows up. No record's value goes into a canary, so what
    is computed from canaries and releases costs no privacy.
    """

    number: int
    """How many units the sampler draws from beside the real ones."""

    @property
    def coordinates(self) -> int:
        """How many numbers of the step's buffer are reserved: as many as canaries, or 0."""
        ...

    def begin(self, run: Path, plan: StepPlan) -> None:
        """Make plan and coins durable; called before the first charge, and when a run goes on."""
        ...

    def add_(self, coordinates: Tensor, drawn: Indices, *, bound: float) -> None:
        """Add the drawn canaries to their reserved coordinates."""
        ...

    def rows(self, drawn: Indices) -> PhysicalBatch | None:
        """Return the rows of the drawn canaries that are in; None where canaries have no rows."""
        ...

    def watch(self, seen: WatchedStep) -> None:
        """Look at a release that is out."""
        ...

    def end(self) -> None:
        """Save what was seen; called when a run ends or is interrupted."""
        ...
