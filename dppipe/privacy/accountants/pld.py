"""PLD: privacy loss distributions, the tightest certified accountant and the default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from dppipe.privacy.accountants.base import (
    Accountant,
    Certificate,
    Composition,
    Estimate,
    PrivacyCurve,
)
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps


class Pld(Accountant, kind="pld"):
    """Convolves the privacy loss distributions of all steps.

    Guarantee: each step's distribution is put on a grid pessimistically (Doroshenko et al. 2022), what the convolution cuts off
    counts as infinite loss, and a bound on its round-off is added to every probability (`dppipe.privacy.pld.convolution`); a
    schedule of very many noise multipliers is first rounded down onto a few. So the composed epsilon is an upper bound for a
    sequence of events that was fixed before any record was read. It is not one where the events follow released values (Rogers
    et al. 2016). Of balls in bins it gives an estimate, from random draws of losses.
    """

    curve_points: ClassVar[int] = 20
    distinct: ClassVar[int | None] = 150
    _finest: ClassVar[float] = 1e-4
    """The interval of the grid for a constant schedule."""

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.events.sequences import gaussian_precision
        from dppipe.privacy.gaussian import GaussianCurve
        from dppipe.privacy.pld.curves import remembered_curves
        from dppipe.privacy.pld.profiles import estimated

        found = (gaussian_precision(stage, relation=relation) for stage in stages)
        precisions = [precision for precision in found if precision is not None]
        if len(precisions) == len(
            stages
        ):  # unsampled Gaussians are one Gaussian, whose curve is exact
            sums = (
                math.fsum(precisions[: done + 1]) for done in range(len(precisions))
            )  # each rounded once
            curves: Iterable[PrivacyCurve] = (GaussianCurve(math.sqrt(total)) for total in sums)
        else:
            asked = tuple(tuple(stage.items()) for stage in stages)
            curves = remembered_curves(
                asked, relation=relation, distinct=self.distinct, finest=self._finest
            )
        given = (
            Estimate
            if any(estimated(event) for stage in stages for event in stage)
            else Certificate
        )
        return [given(self.kind, relation, curve) for curve in curves]

    def curve(
        self, steps: Steps, at: Sequence[int], *, delta: float, relation: Relation
    ) -> list[float]:
        """Give epsilon after each of the step counts: on the fine grid at the last, on a coarse one, a bound too, before it."""
        from dppipe.privacy.events.sequences import first, merge
        from dppipe.privacy.pld.curves import grid_interval

        coarse_enough = grid_interval(
            merge(steps), relation=relation, distinct=self.distinct, finest=self._finest
        )
        if coarse_enough >= _CoarsePld._finest or len(at) < 2:
            return super().curve(steps, at, delta=delta, relation=relation)
        coarse = _CoarsePld().curve(steps, at, delta=delta, relation=relation)
        last = self.compose(first(steps, at[-1]), relation=relation).epsilon(delta)
        return [*(min(epsilon, last) for epsilon in coarse[:-1]), last]

    def rough(self) -> Accountant:
        return _RoughPld()


class _CoarsePld(Pld):
    """The same on a coarse grid: a bound too, about a thousandth looser."""

    _finest: ClassVar[float] = 1e-3


class _RoughPld(Pld):
    """The same on a coarse grid at a few distinct events: a bound too, a few percent looser, from which a search starts."""

    distinct: ClassVar[int | None] = 12
    _finest: ClassVar[float] = 1e-3
