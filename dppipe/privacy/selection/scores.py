"""Noise on the score of a private holdout, and the event of a run with such a score.

A holdout is scored by a count of right answers, or by a sum of losses held to [0, 1]. One record
changes either by at most 1, whether it goes, comes or is replaced. The holdout's records aren't
trained on, so that a run and its score together cost the larger of the two
(`events/disjoint.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.privacy.events.base import sensitivity
from dppipe.privacy.rounding import round_up

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.budget import Relation
    from dppipe.privacy.selection.chords import Chords

_DIGITS = 5
_NEGLIGIBLE = 1e-12
"""Deltas below this aren't compared: no budget is stated for them."""
_MOST = 1e6
_ROUNDS = 60


def score_event(noise_std: float, *, relation: Relation) -> DpEvent:
    """Return the event of a score with Gaussian noise of this standard deviation.

    An event's noise multiplier is over the bound on one record's presence, and accountants double
    the sensitivity under `replace_one`. A count changes by 1 at most also there, so the multiplier
    is twice the standard deviation.
    """
    from dppipe.privacy.events.mechanisms import gaussian

    return gaussian(noise_std * sensitivity(relation))


def with_score(run: DpEvent, noise_std: float, *, relation: Relation) -> DpEvent:
    """Return the event of a run that is scored on a private holdout, which it isn't trained on."""
    from dppipe.privacy.events.disjoint import event_class

    made: DpEvent = event_class()((run, score_event(noise_std, relation=relation)))
    return made


def free_noise_std(run: Chords) -> float:
    """Return the least noise on a score that adds nothing to a run's own cost, rounded up.

    It is the least standard deviation whose profile stays below the run's at every epsilon where
    delta isn't negligible.
    """
    low = 0.0
    high = 1.0
    while not _stays_below(run, high) and high < _MOST:
        low = high
        high *= 2
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _stays_below(run, middle):
            high = middle
        else:
            low = middle
    return round_up(high, _DIGITS)


def _stays_below(run: Chords, noise_std: float) -> bool:
    from dppipe.privacy.gaussian import gaussian_delta

    counted = run.deltas > _NEGLIGIBLE
    score = gaussian_delta(run.epsilons[counted], noise_std)
    return bool((score <= run.deltas[counted]).all())
