"""Selecting one of several candidates by noisy scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.selection import select

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.learners.gating.bounded import Bounded
    from dppipe.privacy.budget import Relation


def refuse_other_mechanism(event: DpEvent) -> None:
    """Refuse an event that isn't the exponential mechanism's: it would charge something else."""
    if type(event).__name__ != "ExponentialMechanismDpEvent":
        raise PrivacyRefusal(
            "gate: expected an ExponentialMechanismDpEvent for a selection, got "
            f"{type(event).__name__}. Charge the mechanism that selects."
        )


def select_noisily(
    event: DpEvent, scores: Bounded, *, relation: Relation, stream: GumbelStream
) -> int:
    """Return the number of a candidate, by the mechanism that the event names.

    Guarantee: the exponential mechanism with the event's epsilon, under this relation: under
    `replace_one` a unit moves a score by up to twice the sensitivity of its presence.
    """
    moved = scores.sensitivity * (2 if relation == "replace_one" else 1)
    values = scores.value.double().cpu().numpy()
    return select(values, sensitivity=moved, epsilon=float(event.epsilon), stream=stream)
