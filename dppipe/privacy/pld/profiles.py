"""The privacy profile of an event: delta as a function of every real epsilon, in each direction.

Each event's own file says which profile it has; the formulas stand in `dppipe.privacy.profiles`.
Balls in bins has only random draws, which give estimates. Read next: `distributions.py`, which puts
profiles on a grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule, rule_of

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.profiles.sampling import Direction


def directions(event: DpEvent, *, relation: Relation) -> tuple[Direction, ...]:
    """Return an event's profile in each direction of neighbouring datasets (lemma 13).

    There is one where both directions are alike, else that of removing a record and that of
    adding one.
    """
    rule = proven_rule("pld", event, relation=relation)
    if rule.profile is None:
        raise PrivacyRefusal(f"accountant pld: expected the profile of {rule.name}, got none.")
    return rule.profile(event, relation)


def estimated(event: DpEvent, *, relation: Relation) -> bool:
    """Whether an event's profile is known from random draws only, which prove nothing."""
    proof = rule_of(event).proof("pld", event, relation=relation)
    return proof is None or proof.estimate
