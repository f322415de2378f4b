"""What the rules of events share that are made of several others (`one_of.py`, `disjoint.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import rule_of
from dppipe.privacy.events.sequences import merge
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction
    from dppipe.privacy.selection.chords import Chords


def proofs_of_each(*, losses: str, divergences: str) -> tuple[Proof, Proof]:
    """Return the proofs by pld and by rdp, which hold where each of the events has one.

    Args:
        losses: The source of the proof by pld.
        divergences: The source of the proof by rdp.
    """
    return (
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source=losses,
            case="events that pld bounds",
            holds=lambda event, relation: _each_has_proof(event, "pld", relation),
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source=divergences,
            case="events that rdp bounds",
            holds=lambda event, relation: _each_has_proof(event, "rdp", relation),
        ),
    )


def _each_has_proof(event: Any, accountant: str, relation: Relation) -> bool:
    """Whether an accountant has a proof, and no mere estimate, for every part of every event."""
    for one in event.events:
        for part in merge([(one, 1)]):
            proof = rule_of(part).proof(accountant, part, relation=relation)
            if proof is None or proof.estimate:
                return False
    return True


def joint_profile(event: DpEvent, relation: Relation) -> tuple[Direction, ...]:
    """Return the profile of all events together, through points of their curves."""
    return _chords(event, relation).directions()


def joint_reach(event: DpEvent, relation: Relation) -> float:
    """Return the largest loss that is known by a chord; the rest counts as infinite."""
    return _chords(event, relation).reach()


def _chords(event: DpEvent, relation: Relation) -> Chords:
    from dppipe.privacy.selection.events import run_chords

    return run_chords(event, relation=relation)


def largest_divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the largest divergence of the events at each order."""
    import numpy as np

    from dppipe.privacy.rdp.curve import RenyiCurve
    from dppipe.privacy.rdp.divergences import divergences, moment_round_off

    tried = tuple(map(float, orders))
    largest = np.zeros(len(orders))
    for one in event.events:
        curve = RenyiCurve.zero(tried)
        for part, count in merge([(one, 1)]).items():
            curve = curve.plus(divergences(part, relation=relation, orders=tried), count)
        largest = np.maximum(largest, curve.divergences)
    return largest + moment_round_off(orders)
