"""The noise of a search's candidates: so much that the whole search lands on its budget.

Each candidate is calibrated alone, as if all were like it. That doesn't give all candidates one
privacy curve, so the joint curve is checked; where it costs too much, all noises are raised by one
common factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.planning.tuning.candidate_events import RunEvents
from dppipe.privacy.calibration import calibrate
from dppipe.privacy.printing import shown
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.accountants.base import Accountant
    from dppipe.privacy.budget import Budget
    from dppipe.spec.tuning.tune import RepetitionOptions

_DIGITS = 5


@dataclass(frozen=True)
class Search:
    """What a search repeats, and how often."""

    runs: tuple[RunEvents, ...]
    """One for each candidate."""
    weights: tuple[float, ...]
    repetitions: RepetitionOptions
    noise_std: float | None
    """The noise on a private score; None where the score costs nothing, or isn't sized yet."""
    budget: Budget

    def run_event(self, scales: Sequence[float]) -> DpEvent:
        """Return the event of one run: one of the candidates, drawn by their weights."""
        from dppipe.privacy.events.one_of import event_class

        events: list[DpEvent] = []
        for run, scale in zip(self.runs, scales, strict=True):
            events.append(run.event(scale))
        if len(set(events)) == 1:
            return events[0]
        made: DpEvent = event_class()(tuple(events), self.weights)
        return made

    def event(self, scales: Sequence[float]) -> DpEvent:
        """Return the event of the whole search at these noise scales."""
        return self.selection(self.run_event(scales))

    def selection(self, run: DpEvent) -> DpEvent:
        """Return the event of the best of several runs, each with its score."""
        from dp_accounting.dp_event import RepeatAndSelectDpEvent

        from dppipe.privacy.selection.scores import with_score

        scored = run
        if self.noise_std is not None:
            scored = with_score(run, self.noise_std, relation=self.budget.relation)
        shape = self.repetitions.event_shape
        made: DpEvent = RepeatAndSelectDpEvent(scored, self.repetitions.mean, shape)
        return made


def search_scales(
    search: Search, accountant: Accountant, *, allow_estimate: bool
) -> tuple[float, ...]:
    """Return each candidate's noise scale; refuse scales that are set and cost too much."""
    _refuse_score(search, accountant)
    alone: dict[DpEvent, float] = {}
    scales: list[float] = []
    for run in search.runs:
        if run.scale is not None:
            scales.append(run.scale)
            continue
        like = run.event(1.0)
        if like not in alone:
            alone[like] = _calibrated_alone(search, run, accountant, allow_estimate=allow_estimate)
        scales.append(alone[like])
    cost = search_cost(search, accountant, scales)
    if cost <= search.budget.epsilon:
        return tuple(scales)
    if not alone:
        raise PrivacyRefusal(
            f"budget.epsilon: expected at least {shown(cost)}, what the search costs at the noise "
            f"multipliers that are set, got {search.budget.epsilon:g}. Raise it or the noise, "
            "lower tune.repetitions.mean, or take noise_multiplier: auto."
        )
    return _raised(search, scales, accountant, allow_estimate=allow_estimate)


def _calibrated_alone(
    search: Search, run: RunEvents, accountant: Accountant, *, allow_estimate: bool
) -> float:
    found = calibrate(
        accountant,
        lambda scale: [(search.selection(run.event(scale)), 1)],
        budget=search.budget,
        allow_estimate=allow_estimate,
    )
    return found.scale


def _raised(
    search: Search, scales: Sequence[float], accountant: Accountant, *, allow_estimate: bool
) -> tuple[float, ...]:
    """Raise every noise that isn't set by one common factor, until the joint curve fits."""

    def scaled(factor: float) -> list[float]:
        made: list[float] = []
        for run, scale in zip(search.runs, scales, strict=True):
            made.append(scale if run.scale is not None else round_up(scale * factor, _DIGITS))
        return made

    found = calibrate(
        accountant,
        lambda factor: [(search.event(scaled(factor)), 1)],
        budget=search.budget,
        allow_estimate=allow_estimate,
    )
    return tuple(scaled(found.scale))


def search_cost(search: Search, accountant: Accountant, scales: Sequence[float]) -> float:
    """Return the epsilon of the whole search at these noise scales."""
    composed = accountant.compose([(search.event(scales), 1)], relation=search.budget.relation)
    return composed.epsilon(search.budget.delta)


def _refuse_score(search: Search, accountant: Accountant) -> None:
    """Refuse noise on a score that exceeds the budget by itself: no noise in training helps."""
    if search.noise_std is None:
        return
    import dp_accounting

    alone = search.selection(dp_accounting.NoOpDpEvent())
    cost = accountant.compose([(alone, 1)], relation=search.budget.relation)
    spent = cost.epsilon(search.budget.delta)
    if spent > search.budget.epsilon:
        raise PrivacyRefusal(
            "tune.score.noise_std: expected noise at which the scores cost at most epsilon "
            f"{search.budget.epsilon:g}, got {search.noise_std:g}, at which they alone cost "
            f"{shown(spent)}. Raise it, or take auto."
        )
