"""Gaussian noise on a Poisson sample of which large ones are cut to a stated size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers, sensitivity
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.proofs import Proof

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from dppipe.privacy.profiles.sampling import Direction


def _is_canonical(event: Any) -> bool:
    most = event.truncated_batch_size
    records = event.dataset_size
    rate = event.sampling_probability
    z = event.noise_multiplier
    whole = type(most) is int and type(records) is int and 0 < most < records
    drawn = type(rate) is float and 0 < rate < 1
    return whole and drawn and type(z) is float and 0 < z < math.inf


def _canonical(event: Any) -> DpEvent:
    made: Any = plain_form(event)
    if made.sampling_probability > 1:
        raise PrivacyRefusal(
            "event.sampling_probability: expected a number of at most 1, got "
            f"{made.sampling_probability}."
        )
    truncated: DpEvent = made
    return truncated


def _numbers(event: Any) -> Numbers:
    rest = (
        type(event).__name__,
        event.dataset_size,
        event.sampling_probability,
        event.truncated_batch_size,
    )
    return Numbers(rest, event.noise_multiplier)


def _with_numbers(event: Any, numbers: Numbers) -> DpEvent:
    import attr

    made: DpEvent = attr.evolve(event, noise_multiplier=numbers.noise)
    return made


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.sampling import cut_off, gaussian_release, sampled, swapped

    z = event.noise_multiplier
    rate = event.sampling_probability
    plain: tuple[Direction, ...] = sampled(gaussian_release(z), rate)
    if relation == "replace_one":
        plain = swapped(z, rate)
    return cut_off(plain, z, rate, records=event.dataset_size, most=event.truncated_batch_size)


def _reach(event: Any, relation: Relation) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    # Where a batch is cut off, a swap counts twice.
    return gaussian_reach(4 / event.noise_multiplier)


def _their_reach(event: Any, relation: Relation, count: int) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return gaussian_reach(sensitivity(relation) / event.noise_multiplier)


RULE = EventRule(
    name="TruncatedSubsampledGaussianDpEvent",
    fields={
        "dataset_size": "int",
        "sampling_probability": "float",
        "truncated_batch_size": "int",
        "noise_multiplier": "float",
    },
    meaning=(
        "Gaussian noise on a Poisson sample that is cut to `truncated_batch_size` records at "
        "random. `noise_multiplier` is over the bound on one record. The bound uses the number of "
        "records, so that has to be public."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=("zero_out", "replace_one"),
            source="Ganesh 2025; `pld/PROOF.md`, lemma 5",
        ),
    ),
    noise="GaussianDpEvent",
    is_canonical=_is_canonical,
    canonical=_canonical,
    multiplier=lambda event: event.noise_multiplier,
    numbers=_numbers,
    with_numbers=_with_numbers,
    profile=_profile,
    reach=_reach,
    rate=lambda event: float(event.sampling_probability),
    their_reach=_their_reach,
)
