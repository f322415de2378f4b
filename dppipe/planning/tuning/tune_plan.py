"""The plan of a private search: its candidates, its number of runs, and what all of it costs.

It is a plan like any other: its last release is the selection, whose one row pays for every run of
the search. Read next: `make_tune_plan.py`, which makes one.
"""

from __future__ import annotations

from typing import Any, Literal

from dppipe.planning.frozen_data import FrozenData
from dppipe.planning.plan import Plan
from dppipe.planning.planned_release import PlannedRelease


class PlannedCandidate(FrozenData):
    """One candidate: what it changes, how likely it is, and its noise."""

    overrides: dict[str, Any]
    weight: float
    """Over all candidates the weights add up to 1."""
    noise_multiplier: float
    """The one that was set, or the one that the plan has found for `auto`."""
    event: dict[str, Any]
    """All that one run of it releases, as plain data."""


class PlannedRepetitions(FrozenData):
    """How many runs the search makes; the number itself is drawn in secret."""

    kind: Literal["truncated_negative_binomial", "poisson"]
    mean: float
    shape: float | None
    """None for the Poisson distribution."""
    median: int
    most: int
    """The number that isn't exceeded with probability 0.99."""


class PlannedScore(FrozenData):
    """How runs are compared."""

    metric: Literal["accuracy", "loss"]
    noise_std: float | None
    """The noise on the sum over a private holdout; None where the holdout is public."""


class SearchCosts(FrozenData):
    """Epsilon at the plan's delta of the search, and of what could be done instead.

    None where no proof covers it.
    """

    one_run: float | None
    """One run of the candidate that costs most."""
    by_curve: float | None
    """The search, by the privacy curve of one run (`privacy/selection/PROOF.md`)."""
    by_rdp: float | None
    """The search, by Renyi divergences (Papernot and Steinke 2022)."""
    all_runs: float | None
    """As many runs as the search makes on average, if every one of them were released."""


class SearchPlan(FrozenData):
    """What a private search has committed to."""

    candidates: tuple[PlannedCandidate, ...]
    repetitions: PlannedRepetitions
    score: PlannedScore
    costs: SearchCosts


class TunePlan(Plan):
    """The plan of a private search.

    Guarantee: as that of `Plan`; the last release covers every run of the search, however many.
    """

    search: SearchPlan

    @property
    def selection(self) -> PlannedRelease:
        """The release that pays for the whole search."""
        return self.releases[-1]
