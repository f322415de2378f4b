"""Proofs as data: what is proven of an event, and when a sampler's event is right.

Each event's file declares which accountants bound the event under which relation, with the theorem
(`dppipe.privacy.events`). Each sampler's class declares the event that it makes and the relations
under which that event describes its draws (`dppipe.sampling`). `support.py` reads its answers off
these declarations; the accountants refuse whatever isn't declared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppipe.privacy.budget import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent

ACCOUNTANTS = ("pld", "rdp", "tcdp", "zcdp", "gdp", "advanced", "basic")
PRESENCE: tuple[Relation, ...] = ("zero_out", "add_remove")
"""The relations in which neighbours differ in one record's presence."""
EVERY_RELATION: tuple[Relation, ...] = ("zero_out", "add_remove", "replace_one")


@dataclass(frozen=True, kw_only=True)
class Proof:
    """That some accountants bound an event under some relations.

    Guarantee: where `estimate` is False, what these accountants compute from the event is an upper
    bound under each of the relations, by the theorem that `source` names.
    """

    accountants: tuple[str, ...]
    relations: tuple[Relation, ...]
    source: str
    """The theorem and where it stands; of an estimate, the approximation."""
    inside: str = ""
    """The event inside for which it holds, where the event is a sampler's around another one."""
    filters: tuple[str, ...] = ()
    """Those of the accountants whose filter is proven too, for events that follow releases."""
    estimate: bool = False
    """Whether the accountants only approximate the cost; then it is no bound."""
    case: str = ""
    """The condition on the event's numbers, in words; empty where it always holds."""
    holds: Callable[[DpEvent, Relation], bool] | None = None
    """The same condition as a function."""

    def covers(self, event: DpEvent, *, relation: Relation) -> bool:
        """Whether the proof is about this very event under this relation."""
        if relation not in self.relations:
            return False
        if self.inside and type(getattr(event, "event", None)).__name__ != self.inside:
            return False
        return self.holds is None or self.holds(event, relation)


@dataclass(frozen=True, kw_only=True)
class SamplerProof:
    """Under which relations the event that a sampler makes describes its draws, and why.

    Guarantee: under each of the relations, a step (or an epoch, for an epoch-wise sampler) is what
    the event says it is.
    """

    event: str
    """The event around the mechanism's own; empty where it is the mechanism's own."""
    relations: tuple[Relation, ...]
    """The usual one first."""
    why: str
    """Why the event is right."""
    why_not: str = ""
    """Why it isn't under the other relations."""
    filters: bool = True
    """Whether noise may follow releases, as far as the sampler is concerned."""
