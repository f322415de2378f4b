"""Spherical noise, of uniform direction and Gamma-distributed norm: privacy with delta 0.

Guarantee: densities proportional to exp(-|x| / scale) differ by exp(sensitivity / scale) at most,
by the triangle inequality (Chaudhuri, Monteleoni and Sarwate 2011). Where the noise stands inside
an objective, the determinant adds its logarithm (`OBJECTIVE.md` beside this file, lemma 11).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, make_event_class, sensitivity
from dppipe.privacy.events.epsilon_delta import pure_divergences
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction

_RAISED = 1 + 2.0**-46
"""More than the few operations of an epsilon are off by."""


@functools.cache
def event_class() -> Any:
    """Return the event."""
    return make_event_class("SphericalDpEvent", ("noise_multiplier", "log_determinant"))


def _epsilon(event: Any, relation: Relation) -> float:
    moved = sensitivity(relation) / event.noise_multiplier
    return float(moved + event.log_determinant) * _RAISED


def _is_proven(event: Any, relation: Relation) -> bool:
    return bool(event.log_determinant == 0 or relation != "replace_one")


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.discrete import discrete_profile, worst_pair

    return (discrete_profile(*worst_pair(_epsilon(event, relation))),)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    return pure_divergences(_epsilon(event, relation), orders)


def _proof(*accountants: str, source: str) -> Proof:
    return Proof(
        accountants=accountants,
        relations=EVERY_RELATION,
        source=source,
        case="log_determinant 0, or the presence of a record",
        holds=_is_proven,
    )


_PURE = "Chaudhuri, Monteleoni and Sarwate 2011: pure epsilon"

RULE = EventRule(
    name="SphericalDpEvent",
    fields={"noise_multiplier": "float", "log_determinant": "share"},
    meaning=(
        "Noise of density proportional to exp(-|x| / scale) on a sum over all records, or inside "
        "an objective. `noise_multiplier` is the scale over the bound on one record's L2 norm; a "
        "replaced record moves a sum by two bounds. `log_determinant` is what a determinant adds "
        "to epsilon: 0 for a sum."
    ),
    proofs=(
        _proof("pld", source=f"{_PURE}; `pld/PROOF.md`, lemma 17"),
        _proof("rdp", source=f"{_PURE}; Mironov 2017, proposition 5"),
        _proof("zcdp", "tcdp", source="Bun and Steinke 2016, proposition 1.4: epsilon^2/2"),
        _proof("basic", "advanced", source=_PURE),
    ),
    event_class=event_class,
    multiplier=lambda event: event.noise_multiplier,
    profile=_profile,
    reach=_epsilon,
    divergences=_divergences,
    rho=lambda event, relation: _epsilon(event, relation) ** 2 / 2,
    one_step=lambda event, relation, delta: _epsilon(event, relation),
    own_delta=lambda event: 0.0,
)
