"""A mechanism on a uniform subset of one fixed size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers
from dppipe.privacy.events.nesting import (
    inner_multiplier,
    inner_numbers,
    inner_reach,
    is_canonical_noise,
    with_inner_noise,
    with_one_mechanism,
)
from dppipe.privacy.proofs import Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


def _is_canonical(event: Any) -> bool:
    size = event.sample_size
    records = event.source_dataset_size
    whole = type(size) is int and type(records) is int and 0 < size < records
    return whole and is_canonical_noise(event.event)


def _canonical(event: Any) -> DpEvent:
    made: Any = with_one_mechanism(event)
    if made.sample_size > made.source_dataset_size:
        raise PrivacyRefusal(
            f"event.sample_size: expected at most the {made.source_dataset_size} records there "
            f"are, got {made.sample_size}."
        )
    unsampled: DpEvent = made.event
    return unsampled if made.sample_size == made.source_dataset_size else made


def _numbers(event: Any) -> Numbers | None:
    return inner_numbers(event, event.source_dataset_size, event.sample_size)


def _rate(event: Any) -> float:
    return float(event.sample_size / event.source_dataset_size)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.sampling import subset

    return subset(event.event.noise_multiplier, event.sample_size / event.source_dataset_size)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.divergences import moment_round_off, subset_divergences

    return subset_divergences(event, orders) + moment_round_off(orders)


RULE = EventRule(
    name="SampledWithoutReplacementDpEvent",
    fields={"source_dataset_size": "int", "sample_size": "int", "event": "event"},
    meaning=(
        "A mechanism on a uniform subset of `sample_size` out of `source_dataset_size` records. "
        "The noise multiplier of the event inside is over the bound on one record; the accountants "
        "double the sensitivity for a replaced one."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=("replace_one",),
            inside="GaussianDpEvent",
            source="Balle, Barthe and Gaboardi 2018, theorem 9; `pld/PROOF.md`, lemma 3",
        ),
        Proof(
            accountants=("rdp",),
            relations=("replace_one",),
            inside="GaussianDpEvent",
            source="Wang, Balle and Kasiviswanathan 2019",
        ),
    ),
    is_canonical=_is_canonical,
    canonical=_canonical,
    multiplier=inner_multiplier,
    numbers=_numbers,
    with_numbers=with_inner_noise,
    profile=_profile,
    reach=inner_reach,
    rate=_rate,
    divergences=_divergences,
)
