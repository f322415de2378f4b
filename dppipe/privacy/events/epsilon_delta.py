"""A mechanism of which only (epsilon, delta) is known.

Guarantee: its worst case is randomised response that reveals everything with probability delta:
every (epsilon, delta)-private mechanism is a processing of that pair (Kairouz, Oh and Viswanath
2015, theorem 3.3). With delta 0 that bounds Renyi divergences too; with more, they are infinite.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, make_event_class
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


@functools.cache
def event_class() -> Any:
    """Return the event: the fields are those of later versions of dp_accounting."""
    return make_event_class("EpsilonDeltaDpEvent", ("epsilon", "delta"))


def _parts(event: Any) -> tuple[()] | None:
    return () if event.epsilon == 0 and event.delta == 0 else None


def _canonical(event: Any) -> DpEvent:
    made: Any = plain_form(event)
    if made.delta >= 1:
        raise PrivacyRefusal(f"event.delta: expected a number below 1, got {made.delta}.")
    known: DpEvent = made
    return known


def _is_pure(event: Any, relation: Relation) -> bool:
    return bool(event.delta == 0)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.discrete import discrete_profile, worst_pair

    return (discrete_profile(*worst_pair(event.epsilon, event.delta)),)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    return pure_divergences(event.epsilon, orders)


def pure_divergences(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest divergences of a mechanism that is private with delta 0."""
    import numpy as np

    from dppipe.privacy.profiles.discrete import worst_pair
    from dppipe.privacy.rdp.discrete import discrete_divergences

    if epsilon > 500:  # the odds leave float64's range; no divergence exceeds epsilon
        return np.full(len(orders), float(epsilon))
    present, absent = worst_pair(epsilon)
    return np.minimum(discrete_divergences(present[:2], absent[:2], orders), epsilon)


RULE = EventRule(
    name="EpsilonDeltaDpEvent",
    fields={"epsilon": "share", "delta": "share"},
    meaning=(
        "A mechanism of which only `epsilon` and `delta` are known. Both are those of the run's "
        "own relation: nothing is doubled under `replace_one`."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source="Kairouz, Oh and Viswanath 2015, theorem 3.3; `pld/PROOF.md`, lemma 17",
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source="Kairouz, Oh and Viswanath 2015, theorem 3.3; Mironov 2017, proposition 5",
            filters=("rdp",),
            case="delta 0",
            holds=_is_pure,
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=EVERY_RELATION,
            source="Bun and Steinke 2016, proposition 1.4: epsilon^2/2",
            filters=("zcdp", "tcdp"),
            case="delta 0",
            holds=_is_pure,
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="by its definition",
            filters=("advanced",),
        ),
    ),
    event_class=event_class,
    parts=_parts,
    canonical=_canonical,
    profile=_profile,
    reach=lambda event, relation: float(event.epsilon),
    divergences=_divergences,
    rho=lambda event, relation: float(event.epsilon**2 / 2),
    one_step=lambda event, relation, delta: float(event.epsilon),
    own_delta=lambda event: float(event.delta),
)
