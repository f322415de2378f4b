"""Noise inside the objective of a softmax regression over all records.

Guarantee: `OBJECTIVE.md` beside this file, lemmas 1 to 3 and 7.
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
    return make_event_class("SoftmaxObjectiveDpEvent", ("noise_multiplier", "leverage", "classes"))


def _shift(event: Any) -> float:
    from dppipe.privacy.profiles.determinants import softmax_determinant

    return softmax_determinant(event.noise_multiplier, event.leverage, event.classes)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.objective import softmax_profile

    return softmax_profile(event.noise_multiplier, event.leverage, event.classes)


def _reach(event: Any, relation: Relation) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return _shift(event) + gaussian_reach(1 / event.noise_multiplier)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.objective import softmax_divergences

    return softmax_divergences(event.noise_multiplier, _shift(event), event.classes, orders)


RULE = EventRule(
    name="SoftmaxObjectiveDpEvent",
    fields={"noise_multiplier": "float", "leverage": "float", "classes": "int"},
    meaning=(
        "Gaussian noise times the weights in the objective of a softmax regression, whose "
        "minimiser is released. `noise_multiplier` is its standard deviation over sqrt(2) times "
        "the bound on one record's norm, `leverage` that bound's square over the regularisation."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=PRESENCE,
            source="`events/OBJECTIVE.md`, lemma 7 (a union bound)",
        ),
        Proof(
            accountants=("rdp",),
            relations=PRESENCE,
            source="`events/OBJECTIVE.md`, lemmas 7 and 10",
        ),
    ),
    missing=WHY_NOT,
    event_class=event_class,
    multiplier=lambda event: event.noise_multiplier,
    profile=_profile,
    reach=_reach,
    divergences=_divergences,
)
