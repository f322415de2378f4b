"""The gate of a run without a budget: nothing is charged, and nothing is noised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from dppipe.learners.gating.upcoming import PlannedReleases

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.gating.bounded import Bounded
    from dppipe.planning.plan import Plan
    from dppipe.privacy.release import Release


class PlainGate:
    """Has the methods of `Gate`, and protects nobody: the non-private baseline."""

    computing = True
    """Records may be read at any time."""

    def __init__(self, plan: Plan) -> None:
        self._upcoming = PlannedReleases(plan)

    def next(self) -> Release | None:
        """Return the next planned release."""
        return self._upcoming.next()

    def skip(self, release: Release) -> None:
        """Go on to the next release: the value of this one was saved before."""
        self._upcoming.charge(release)

    def add_noise(self, release: Release, compute: Callable[[], Bounded]) -> Tensor:
        """Return the value over its divisor, without noise."""
        self._upcoming.charge(release)
        bounded = compute()
        return bounded.value / bounded.over

    def select(self, release: Release, scores: Callable[[], Bounded]) -> int:
        """Return the candidate with the highest score."""
        self._upcoming.charge(release)
        return int(torch.argmax(scores().value))

    def perturb(
        self,
        release: Release,
        solve: Callable[[Tensor], Bounded],
        *,
        size: int,
        sensitivity: float,
    ) -> Tensor:
        """Return the solution without noise."""
        self._upcoming.charge(release)
        bounded = solve(torch.zeros(size, dtype=torch.float64))
        return bounded.value / bounded.over
