"""Selecting one of several candidates by noisy scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.selection import select

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.learners.gating.bounded import Bounded
    from dppipe.learners.gating.sources import Selecting
    from dppipe.privacy.budget import Relation


def selecting_mechanism(event: DpEvent) -> Selecting:
    """Return the mechanism that selects by an event; one that charges something else is refused.

    Guarantee: the exponential mechanism for its own event, of which more than epsilon is known;
    permute-and-flip for an event that states epsilon with delta 0, all that is known of it.
    """
    name = type(event).__name__
    if name == "ExponentialMechanismDpEvent":
        return "exponential"
    if name == "EpsilonDeltaDpEvent" and event.delta == 0:
        return "permute_and_flip"
    raise PrivacyRefusal(
        "gate: expected an ExponentialMechanismDpEvent for a selection, or an EpsilonDeltaDpEvent "
        f"with delta 0 for permute-and-flip, got {name}. Charge the mechanism that selects."
    )


def select_noisily(
    event: DpEvent,
    scores: Bounded,
    *,
    relation: Relation,
    stream: GumbelStream | ExponentialStream,
) -> int:
    """Return the number of a candidate, by the mechanism that the stream is for.

    Guarantee: the mechanism has the event's epsilon, under this relation. Under `replace_one` a
    unit moves a score by up to twice the sensitivity of its presence; monotone scores need half the
    noise under every relation (`dppipe/randomness/SELECTION.md`, lemma 6).
    """
    moved = scores.sensitivity * (2 if relation == "replace_one" else 1)
    values = scores.value.double().cpu().numpy()
    return select(
        values,
        sensitivity=moved,
        epsilon=float(event.epsilon),
        stream=stream,
        monotone=scores.monotone,
    )
