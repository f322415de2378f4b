"""Laplace noise on a sum over all records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers, sensitivity
from dppipe.privacy.proofs import EVERY_RELATION, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction, Release


def _is_canonical(event: Any) -> bool:
    scale = event.noise_multiplier
    return type(scale) is float and 0 < scale < math.inf


def _numbers(event: Any) -> Numbers:
    return Numbers("LaplaceDpEvent", event.noise_multiplier)


def _with_numbers(event: Any, numbers: Numbers) -> DpEvent:
    return type(event)(numbers.noise)


def _release(event: Any, moved: float) -> Release:
    from dppipe.privacy.profiles.sampling import laplace_release

    return laplace_release(event.noise_multiplier / moved)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.sampling import whole

    return whole(_release(event, sensitivity(relation)))


def _reach(event: Any, relation: Relation) -> float:
    return float(sensitivity(relation) / event.noise_multiplier)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.divergences import laplace_divergences

    return laplace_divergences(sensitivity(relation) / event.noise_multiplier, orders)


def _rho(event: Any, relation: Relation) -> float:
    return float((sensitivity(relation) / event.noise_multiplier) ** 2 / 2)


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    return float(1 / (event.noise_multiplier / sensitivity(relation)))


RULE = EventRule(
    name="LaplaceDpEvent",
    fields={"noise_multiplier": "float"},
    meaning=(
        "Laplace noise on every coordinate of a sum over all records. `noise_multiplier` is its "
        "scale over the bound on one record's L1 norm; a replaced record moves the sum by two "
        "bounds."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source="Dwork et al. 2006; `pld/PROOF.md`, lemma 1 (exact)",
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source="Mironov 2017, proposition 6",
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=EVERY_RELATION,
            source="Bun and Steinke 2016, proposition 1.4: epsilon^2/2",
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="Dwork et al. 2006: pure epsilon",
        ),
    ),
    is_canonical=_is_canonical,
    multiplier=lambda event: event.noise_multiplier,
    numbers=_numbers,
    with_numbers=_with_numbers,
    release=_release,
    profile=_profile,
    reach=_reach,
    divergences=_divergences,
    rho=_rho,
    one_step=_one_step,
    own_delta=lambda event: 0.0,
)
