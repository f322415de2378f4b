"""What dppipe knows about a privacy event: one `EventRule`, in one file for each event.

A rule is found by its file: that of `PoissonSampledDpEvent` is `poisson_sampled.py`, and its name
there is `RULE`. No list has to be kept. Files of rules load without numpy, scipy and dp_accounting,
since `dppipe validate` reads their proofs: what computes is imported when it is called.
Read next: `gaussian.py`, then `poisson_sampled.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.proofs import ACCOUNTANTS, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction, Release

_PACKAGE = "dppipe.privacy.events"

Form = Literal["float", "share", "shape", "int", "floats", "event", "events"]
"""What a field holds: a number > 0, one that may be 0, one that may be 0 or infinite, an integer
> 0, several that may be 0, an event again, or several."""


class Numbers(NamedTuple):
    """The numbers of an event that may be rounded: less noise and a higher rate never cost less."""

    rest: object
    """What stays as it is; only events with the same rest are comparable."""
    noise: float
    rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class EventRule:
    """Everything that is known about one event.

    What accountants compute with takes the event in its canonical form and the relation. It is
    called only where a proof of this rule covers the event under that relation (`proven_rule`).
    """

    name: str
    fields: Mapping[str, Form]
    meaning: str
    """What the event is, and what its numbers mean under each relation."""
    proofs: tuple[Proof, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why an accountant has no proof, where more can be said than that."""
    noise: str = ""
    """The event of the noise that it adds, where that isn't a field."""
    event_class: Callable[[], Any] | None = None
    """Returns the class of the event where dp_accounting has none."""

    is_canonical: Callable[[Any], bool] | None = None
    """Whether an event is in its canonical form already: a fast check that may say no."""
    canonical: Callable[[Any], DpEvent] | None = None
    """Brings an event into its canonical form; None where plain numbers are all there is to it."""
    parts: Callable[[Any], Iterable[tuple[DpEvent, int]] | None] | None = None
    """Takes a composition apart, into events and counts; it returns None where it is none."""
    multiplier: Callable[[Any], float | None] | None = None
    """The noise multiplier that is charged; None where there is no such number."""
    numbers: Callable[[Any], Numbers | None] | None = None
    """What may be rounded to shorten a schedule; None where nothing may."""
    with_numbers: Callable[[Any, Numbers], DpEvent] | None = None
    """Returns the event with rounded numbers."""

    release: Callable[[Any, float], Release] | None = None
    """PLD: noise on all records at a sensitivity, alike in both directions."""
    profile: Callable[[Any, Relation], tuple[Direction, ...]] | None = None
    """PLD: delta at every epsilon, in each direction."""
    reach: Callable[[Any, Relation], float] | None = None
    """PLD: roughly the largest loss when the record is drawn."""
    rate: Callable[[Any], float] | None = None
    """PLD: the probability that a given record is drawn; None where it always is."""
    their_reach: Callable[[Any, Relation, int], float] | None = None
    """The largest loss that dp_accounting puts on its grid for a count, where `reach` isn't it."""
    divergences: Callable[[Any, Relation, NDArray[np.float64]], NDArray[np.float64]] | None = None
    """RDP, tCDP: an upper bound on the Renyi divergence at each order."""
    rho: Callable[[Any, Relation], float] | None = None
    """zCDP, tCDP: the rho at every order."""
    mu_squared: Callable[[Any, Relation], float] | None = None
    """GDP: mu squared, exactly or in the central limit."""
    one_step: Callable[[Any, Relation, float], float] | None = None
    """basic, advanced: the epsilon at a delta."""
    own_delta: Callable[[Any], float | None] | None = None
    """basic, advanced: the delta that can't be chosen, 0 for a pure mechanism; None where it
    can."""

    def proof(self, accountant: str, event: DpEvent, *, relation: Relation) -> Proof | None:
        """Return the proof, or the estimate, that an accountant has for an event; None if none."""
        for proof in self.proofs:
            if accountant in proof.accountants and proof.covers(event, relation=relation):
                return proof
        return None


_known: dict[str, EventRule] = {}


def rule_of(event: DpEvent) -> EventRule:
    """Return the rule of an event; refuse an event that has none."""
    return _known.get(type(event).__name__) or rule_named(type(event).__name__)


def rule_named(name: str) -> EventRule:
    """Return the rule of the event with this name; refuse a name without one."""
    found = find_rule(name)
    if found is None:
        raise PrivacyRefusal(
            f"event: expected one of {', '.join(event_names())}, got {name}. It can't be charged."
        )
    return found


def find_rule(name: str) -> EventRule | None:
    """Return the rule of the event with this name; None where no file holds one."""
    if name not in _known and name.isidentifier() and name.endswith("DpEvent"):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("DpEvent"))
        module = f"{_PACKAGE}.{words.lower()}"
        rule = _rule_in(module) if importlib.util.find_spec(module) else None
        if rule is not None and rule.name == name:
            _known[name] = rule
    return _known.get(name)


def event_names() -> list[str]:
    """Return the names of all events that can be charged."""
    package = importlib.import_module(_PACKAGE)
    names: list[str] = []
    for module in pkgutil.iter_modules(package.__path__):
        rule = _rule_in(f"{_PACKAGE}.{module.name}")
        if rule is not None:
            names.append(rule.name)
    return sorted(names)


def _rule_in(module: str) -> EventRule | None:
    rule = getattr(importlib.import_module(module), "RULE", None)
    return rule if isinstance(rule, EventRule) else None


def proven_rule(accountant: str, event: DpEvent, *, relation: Relation) -> EventRule:
    """Return an event's rule where an accountant has a proof or an estimate; else refuse.

    Guarantee: no accountant computes from an event what the event's own file doesn't declare.
    """
    rule = rule_of(event)
    if rule.proof(accountant, event, relation=relation) is not None:
        return rule
    lacking = f"no proof for {event_title(event)} under {relation}"
    if accountant in rule.missing:
        lacking += f": {rule.missing[accountant]}"
    raise PrivacyRefusal(
        f"accountant {accountant}: {lacking}; {_who_has_one(rule, event, relation)}."
    )


def _who_has_one(rule: EventRule, event: DpEvent, relation: Relation) -> str:
    having: list[str] = []
    for kind in ACCOUNTANTS:
        proof = rule.proof(kind, event, relation=relation)
        if proof is not None and not proof.estimate:
            having.append(kind)
    if not having:
        return "no accountant has one"
    if len(having) == 1:
        return f"{having[0]} has one"
    return f"{', '.join(having[:-1])} and {having[-1]} have one"


def event_title(event: DpEvent) -> str:
    """Return the name of an event, with that of the event inside it."""
    inside = getattr(event, "event", None)
    name = type(event).__name__
    return name if inside is None else f"{name} of {type(inside).__name__}"


def make_event_class(name: str, fields: tuple[str, ...]) -> Any:
    """Return dp_accounting's event of this name, or one like it where this version has none."""
    import attr
    from dp_accounting import dp_event

    theirs = getattr(dp_event, name, None)
    if theirs is not None:
        return theirs
    return attr.make_class(name, fields, bases=(dp_event.DpEvent,), frozen=True, slots=True)


def sensitivity(relation: Relation) -> float:
    """Return how far one record can move a sum, in units of the bound on one record's presence.

    A replaced record moves it twice: its own part goes, and another one comes.
    """
    return 2.0 if relation == "replace_one" else 1.0


def multiplier_of(event: DpEvent) -> float | None:
    """Return the noise multiplier that an event charges; None where it has none."""
    rule = rule_of(event)
    return rule.multiplier(event) if rule.multiplier is not None else None


def noise_multiplier(event: DpEvent) -> float:
    """Return the noise multiplier that an event charges, to draw noise with.

    Guarantee: it is the very number that accountants compute with: the noise's standard deviation
    (its scale, for Laplace noise) over the sensitivity to one record's presence. An event without
    one such number is refused.
    """
    found = multiplier_of(event)
    if found is None or isinstance(found, bool | str) or not 0 < found < math.inf:
        raise PrivacyRefusal(
            f"event: expected one with a finite noise multiplier > 0, got {event}. No noise can be "
            "drawn for it."
        )
    return float(found)
