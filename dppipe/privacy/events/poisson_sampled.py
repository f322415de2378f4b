"""A mechanism on a Poisson sample: each record is in it with one probability, independently."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers
from dppipe.privacy.events.nesting import (
    inner_multiplier,
    inner_numbers,
    inner_own_delta,
    inner_reach,
    inner_release,
    is_canonical_noise,
    with_inner_noise,
    with_one_mechanism,
)
from dppipe.privacy.proofs import PRESENCE, Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


def _is_canonical(event: Any) -> bool:
    rate = event.sampling_probability
    return type(rate) is float and 0 < rate < 1 and is_canonical_noise(event.event)


def _canonical(event: Any) -> DpEvent:
    made: Any = with_one_mechanism(event)
    rate = made.sampling_probability
    if rate > 1:
        raise PrivacyRefusal(
            f"event.sampling_probability: expected a number of at most 1, got {rate}."
        )
    unsampled: DpEvent = made.event
    return unsampled if rate == 1 else made


def _numbers(event: Any) -> Numbers | None:
    inner = inner_numbers(event)
    return None if inner is None else inner._replace(rate=event.sampling_probability)


def _with_numbers(event: Any, numbers: Numbers) -> DpEvent:
    import attr

    made: DpEvent = attr.evolve(with_inner_noise(event, numbers), sampling_probability=numbers.rate)
    return made


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.sampling import sampled, swapped

    rate = event.sampling_probability
    if relation == "replace_one":
        return swapped(event.event.noise_multiplier, rate)
    return sampled(inner_release(event), rate)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.divergences import moment_round_off, sampled_divergences

    found = sampled_divergences(event.event.noise_multiplier, event.sampling_probability, orders)
    return found + moment_round_off(orders)


def _mu_squared(event: Any, relation: Relation) -> float:
    """Return a step's part of mu squared in the limit of many small steps (Bu et al. 2020)."""
    precision = float(event.event.noise_multiplier) ** -2
    return float(event.sampling_probability**2 * math.expm1(min(precision, 700.0)))


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    from dppipe.privacy.textbook.one_step import amplified, step_epsilon

    rate = event.sampling_probability
    if delta >= rate and inner_own_delta(event) is None:
        # With probability 1-q the record isn't even drawn. A pure step counts no delta, so it
        # can't use that.
        return 0.0
    inner = step_epsilon(event.event, delta=delta / rate, relation=relation)
    return amplified(inner, rate)


_GAUSSIAN = "GaussianDpEvent"
_LAPLACE = "LaplaceDpEvent"

RULE = EventRule(
    name="PoissonSampledDpEvent",
    fields={"sampling_probability": "float", "event": "event"},
    meaning=(
        "A mechanism on a sample that each record joins with `sampling_probability`, "
        "independently. The noise multiplier of the event inside is over the bound on one record."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=PRESENCE,
            inside=_GAUSSIAN,
            source="Zhu, Dong and Wang 2022; `pld/PROOF.md`, lemma 2",
        ),
        Proof(
            accountants=("pld",),
            relations=("replace_one",),
            inside=_GAUSSIAN,
            source="`pld/PROOF.md`, lemma 4",
        ),
        Proof(
            accountants=("rdp", "tcdp"),
            relations=PRESENCE,
            inside=_GAUSSIAN,
            source="Mironov, Talwar and Zhang 2019, section 3.3",
            filters=("rdp", "tcdp"),
        ),
        Proof(
            accountants=("gdp",),
            relations=PRESENCE,
            inside=_GAUSSIAN,
            source="a central-limit approximation",
            estimate=True,
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=PRESENCE,
            inside=_GAUSSIAN,
            source="Balle, Barthe and Gaboardi 2018, theorem 8",
            filters=("advanced",),
        ),
        Proof(
            accountants=("pld",),
            relations=PRESENCE,
            inside=_LAPLACE,
            source="Zhu, Dong and Wang 2022; `pld/PROOF.md`, lemma 2",
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=PRESENCE,
            inside=_LAPLACE,
            source="Balle, Barthe and Gaboardi 2018, theorem 8",
        ),
    ),
    missing={"zcdp": "zcdp is not amplified by sampling"},
    is_canonical=_is_canonical,
    canonical=_canonical,
    multiplier=inner_multiplier,
    numbers=_numbers,
    with_numbers=_with_numbers,
    profile=_profile,
    reach=inner_reach,
    rate=lambda event: float(event.sampling_probability),
    divergences=_divergences,
    mu_squared=_mu_squared,
    one_step=_one_step,
    own_delta=inner_own_delta,
)
