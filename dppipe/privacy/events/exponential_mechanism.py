"""The exponential mechanism: an outcome is chosen by its score, at odds exp(epsilon score / 2).

Guarantee: its privacy loss lies in an interval of length epsilon that holds 0 (bounded range;
Durfee and Rogers 2019). So it is private with delta 0, and epsilon^2/8-zCDP (Dong, Durfee and
Rogers 2020; Cesar and Rogers 2021), a quarter of what pure epsilon alone would give.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, make_event_class
from dppipe.privacy.events.epsilon_delta import pure_divergences
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


@functools.cache
def event_class() -> Any:
    """Return the event: the field is that of later versions of dp_accounting."""
    return make_event_class("ExponentialMechanismDpEvent", ("epsilon",))


def _rho(event: Any, relation: Relation) -> float:
    return float(event.epsilon**2 / 8)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    """Return the profile of the worst mechanism that is private with delta 0.

    That of bounded range is lower for one mechanism, but no single pair of distributions has it,
    so that it couldn't be composed.
    """
    from dppipe.privacy.profiles.discrete import discrete_profile, worst_pair

    return (discrete_profile(*worst_pair(event.epsilon)),)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    return np.minimum(_rho(event, relation) * orders, pure_divergences(event.epsilon, orders))


_BOUNDED_RANGE = "bounded range: Dong, Durfee and Rogers 2020; Cesar and Rogers 2021: epsilon^2/8"

RULE = EventRule(
    name="ExponentialMechanismDpEvent",
    fields={"epsilon": "float"},
    meaning=(
        "An outcome chosen at odds exp(`epsilon` score / (2 sensitivity)). The sensitivity of the "
        "score is that of the run's own relation: nothing is doubled under `replace_one`."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source="McSherry and Talwar 2007 (pure epsilon); `pld/PROOF.md`, lemma 17",
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source=_BOUNDED_RANGE,
            filters=("rdp",),
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=EVERY_RELATION,
            source=_BOUNDED_RANGE,
            filters=("zcdp", "tcdp"),
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="McSherry and Talwar 2007: pure epsilon",
            filters=("advanced",),
        ),
    ),
    event_class=event_class,
    profile=_profile,
    reach=lambda event, relation: float(event.epsilon),
    divergences=_divergences,
    rho=_rho,
    one_step=lambda event, relation, delta: float(event.epsilon),
    own_delta=lambda event: 0.0,
)
