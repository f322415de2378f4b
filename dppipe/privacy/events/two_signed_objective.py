"""Noise inside an objective of losses whose derivative may have either sign.

Guarantee: `OBJECTIVE.md` beside this file, lemmas 1 to 3 and 6.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, make_event_class
from dppipe.privacy.events.perturbation import WHY_NOT
from dppipe.privacy.proofs import PRESENCE, Proof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


@functools.cache
def event_class() -> Any:
    """Return the event."""
    return make_event_class("TwoSignedObjectiveDpEvent", ("noise_multiplier", "curvature"))


def _shift(event: Any) -> float:
    from dppipe.privacy.profiles.determinants import uniform_determinant

    return uniform_determinant(event.curvature)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.objective import two_signed_profile

    return two_signed_profile(event.noise_multiplier, _shift(event))


def _reach(event: Any, relation: Relation) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return _shift(event) + gaussian_reach(1 / event.noise_multiplier)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.objective import two_signed_divergences

    return two_signed_divergences(event.noise_multiplier, _shift(event), orders)


RULE = EventRule(
    name="TwoSignedObjectiveDpEvent",
    fields={"noise_multiplier": "float", "curvature": "float"},
    meaning=(
        "Gaussian noise times the weights in the objective of a linear model, whose minimiser is "
        "released; a record's derivative may have either sign, as the Huber loss has. "
        "`noise_multiplier` is its standard deviation over the bound on one record's gradient, "
        "`curvature` the bound on one record's second derivative over the regularisation."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=PRESENCE,
            source="`events/OBJECTIVE.md`, lemma 6",
        ),
        Proof(
            accountants=("rdp",),
            relations=PRESENCE,
            source="`events/OBJECTIVE.md`, lemmas 6 and 10",
        ),
    ),
    missing=WHY_NOT,
    event_class=event_class,
    multiplier=lambda event: event.noise_multiplier,
    profile=_profile,
    reach=_reach,
    divergences=_divergences,
)
