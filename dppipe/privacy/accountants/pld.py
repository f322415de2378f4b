"""PLD: privacy loss distributions, the tightest certified accountant and the default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dppipe.privacy.accountants.base import Accountant, Certificate, Composition, Estimate
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.sequences import Counts, Steps

if TYPE_CHECKING:
    from dppipe.privacy.gaussian import GaussianCurve
    from dppipe.privacy.selection.costs import SelectionCurve

_FOLLOWED = 400
"""The most distinct events along a run: rounding onto them adds up to 0.2 % to epsilon."""
_FOLLOWED_CLOSELY = 600
_ABOVE = 1e-5
"""Added to epsilon along a run, so that it isn't below what another grid computes for a part."""


class Pld(Accountant, kind="pld"):
    """Convolves the privacy loss distributions of all steps.

    Guarantees:
    - The composed epsilon is an upper bound for a sequence of events that was fixed before any
      record was read, round-off included (`dppipe/privacy/pld/PROOF.md`).
    - It is not one where the events follow released values (Rogers et al. 2016).
    - For balls in bins the result is an estimate, from random draws of losses.
    """

    distinct: ClassVar[int | None] = 150
    _finest: ClassVar[float] = 1e-4
    """The interval of the grid for a constant schedule."""

    def compositions(self, stages: Sequence[Counts], *, relation: Relation) -> list[Composition]:
        from dppipe.privacy.pld import compose

        gaussians = _gaussian_curves(stages, relation=relation)
        if gaussians is not None:
            return [Certificate(self.kind, relation, curve) for curve in gaussians]
        best = self._only_selection(stages, relation=relation)
        if best is not None:
            return [Certificate(self.kind, relation, best)]
        curves = compose(stages, relation=relation, distinct=self.distinct, finest=self._finest)
        certified = all(curve.certified for curve in curves)
        made = Certificate if certified else Estimate
        return [made(self.kind, relation, curve) for curve in curves]

    def _only_selection(
        self, stages: Sequence[Counts], *, relation: Relation
    ) -> SelectionCurve | None:
        """Return the curve of one selection and nothing else, which needs no grid of its own."""
        from dppipe.privacy.selection.events import only_selection

        if len(stages) != 1:
            return None
        return only_selection(
            stages[0], relation=relation, distinct=self.distinct, finest=self._finest
        )

    def curve(
        self, steps: Steps, at: Sequence[int], *, delta: float, relation: Relation
    ) -> list[float]:
        """Return epsilon after each of the step counts.

        The last is computed on the fine grid, those before it on a coarse one, which is a bound
        too.
        """
        from dppipe.privacy.events.sequences import first, merge
        from dppipe.privacy.pld import starting_interval

        interval = starting_interval(
            merge(steps), relation=relation, distinct=self.distinct, finest=self._finest
        )
        if interval >= _CoarsePld._finest or len(at) < 2:
            return super().curve(steps, at, delta=delta, relation=relation)
        coarse = _CoarsePld().curve(steps, at, delta=delta, relation=relation)
        last = self.compose(first(steps, at[-1]), relation=relation).epsilon(delta)
        return [*(min(epsilon, last) for epsilon in coarse[:-1]), last]

    def spending(
        self,
        steps: Steps,
        at: Sequence[int],
        *,
        delta: float,
        relation: Relation,
        before: Steps = (),
        rounding: bool = True,
    ) -> list[tuple[int, float]]:
        """Return epsilon after as many steps as it takes to follow it within about 0.4 %.

        The last is computed as `compose` does, on the fine grid.
        """
        from dppipe.privacy.events.sequences import merge, single_events
        from dppipe.privacy.pld import followed

        alone = single_events(steps)
        counted = merge(before)
        if (
            not at[-1]
            or alone is None
            or _gaussian_curves([merge([*before, *steps])], relation=relation)
        ):
            return super().spending(steps, at, delta=delta, relation=relation, before=before)
        points = followed(
            counted,
            alone,
            at,
            delta=delta,
            relation=relation,
            distinct=_FOLLOWED if rounding else _FOLLOWED_CLOSELY,
        )
        if points is None:
            few = _FewPoints()
            return Accountant.spending(
                few, steps, at, delta=delta, relation=relation, before=before
            )
        last = self.compose([*before, *steps], relation=relation).epsilon(delta)
        if points[0][0] == 0:  # what runs that start from these weights take over
            known = self.compose(before, relation=relation).epsilon(delta)
            return [(0, known), *_capped(points[1:], last)]
        return _capped(points, last)

    def rough(self) -> Accountant:
        return _RoughPld()


def _capped(points: Sequence[tuple[int, float]], last: float) -> list[tuple[int, float]]:
    """Return points that are at most the last, which is known more closely than they are."""
    above = [(done, min(epsilon + _ABOVE, last)) for done, epsilon in points[:-1]]
    return [*above, (points[-1][0], last)]


def _gaussian_curves(stages: Sequence[Counts], *, relation: Relation) -> list[GaussianCurve] | None:
    """Return exact curves where every event is an unsampled Gaussian: they are one Gaussian."""
    from dppipe.privacy.events.sequences import gaussian_precision
    from dppipe.privacy.gaussian import GaussianCurve

    precisions: list[float] = []
    for stage in stages:
        precision = gaussian_precision(stage, relation=relation)
        if precision is None:
            return None
        precisions.append(precision)
    curves = []
    for done in range(1, len(precisions) + 1):
        total = math.fsum(precisions[:done])  # each sum is rounded once
        curves.append(GaussianCurve(math.sqrt(total)))
    return curves


class _FewPoints(Pld):
    """The same, for events that can't be followed: each point of their curve takes long."""

    curve_points: ClassVar[int] = 20


class _CoarsePld(Pld):
    """The same on a coarse grid: a bound too, about a thousandth looser."""

    _finest: ClassVar[float] = 1e-3


class _RoughPld(Pld):
    """The same on a coarse grid with few distinct events, from which a search starts.

    It is a bound too, a few percent looser.
    """

    distinct: ClassVar[int | None] = 12
    _finest: ClassVar[float] = 1e-3
