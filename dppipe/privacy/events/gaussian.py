"""Gaussian noise on a sum over all records."""

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
    z = event.noise_multiplier
    return type(z) is float and 0 < z < math.inf


def _numbers(event: Any) -> Numbers:
    return Numbers("GaussianDpEvent", event.noise_multiplier)


def _with_numbers(event: Any, numbers: Numbers) -> DpEvent:
    return type(event)(numbers.noise)


def _release(event: Any, moved: float) -> Release:
    from dppipe.privacy.profiles.sampling import gaussian_release

    return gaussian_release(event.noise_multiplier / moved)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.sampling import whole

    return whole(_release(event, sensitivity(relation)))


def _reach(event: Any, relation: Relation) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return gaussian_reach(sensitivity(relation) / event.noise_multiplier)


def _their_reach(event: Any, relation: Relation, count: int) -> float:
    """dp_accounting merges equal Gaussians into one."""
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return gaussian_reach(sensitivity(relation) / event.noise_multiplier * math.sqrt(count))


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    squared = float((sensitivity(relation) / event.noise_multiplier) ** 2)
    return orders * squared / 2


def _rho(event: Any, relation: Relation) -> float:
    return float((sensitivity(relation) / event.noise_multiplier) ** 2 / 2)


def _mu_squared(event: Any, relation: Relation) -> float:
    ratio = sensitivity(relation) / event.noise_multiplier
    return float(ratio * ratio)  # unlike a power, it overflows to infinity


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    from dppipe.privacy.gaussian import gaussian_epsilon

    return gaussian_epsilon(event.noise_multiplier / sensitivity(relation), delta)


RULE = EventRule(
    name="GaussianDpEvent",
    fields={"noise_multiplier": "float"},
    meaning=(
        "Gaussian noise on a sum over all records. `noise_multiplier` is its standard deviation "
        "over the bound on one record's L2 norm; a replaced record moves the sum by two bounds."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=EVERY_RELATION,
            source="Balle and Wang 2018 (exact)",
        ),
        Proof(
            accountants=("rdp",),
            relations=EVERY_RELATION,
            source="Mironov 2017, proposition 7",
            filters=("rdp",),
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=EVERY_RELATION,
            source="Bun and Steinke 2016, proposition 1.6",
            filters=("zcdp", "tcdp"),
        ),
        Proof(
            accountants=("gdp",),
            relations=EVERY_RELATION,
            source="Dong, Roth and Su 2019 (exact)",
            filters=("gdp",),
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=EVERY_RELATION,
            source="Balle and Wang 2018, for one step",
            filters=("advanced",),
        ),
    ),
    is_canonical=_is_canonical,
    multiplier=lambda event: event.noise_multiplier,
    numbers=_numbers,
    with_numbers=_with_numbers,
    release=_release,
    profile=_profile,
    reach=_reach,
    their_reach=_their_reach,
    divergences=_divergences,
    rho=_rho,
    mu_squared=_mu_squared,
    one_step=_one_step,
)
