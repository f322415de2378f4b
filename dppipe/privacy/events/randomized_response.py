"""Randomised response over k buckets: the truth, or with probability p a bucket at random.

Guarantee: exact under `replace_one`, where one record's bucket becomes another. Under `zero_out` a
record that isn't there answers with a bucket at random, as dp_accounting's event has it. Under
`add_remove` the number of answers would show whether a record is there: nothing is proven.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule
from dppipe.privacy.events.plain import plain_form
from dppipe.privacy.proofs import Proof

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction

_UPWARD = 1 + 2.0**-48
"""More than a logarithm of a few rounded numbers is off by."""


def _parts(event: Any) -> tuple[()] | None:
    """Nothing is released where there is one bucket, or where the truth is never told."""
    silent = event.num_buckets == 1 or event.noise_parameter == 1
    return () if silent and plain_form(event) is not None else None


def _canonical(event: Any) -> DpEvent:
    made: Any = plain_form(event)
    if made.noise_parameter > 1:
        raise PrivacyRefusal(
            f"event.noise_parameter: expected a number of at most 1, got {made.noise_parameter}."
        )
    answer: DpEvent = made
    return answer


def _pairs(event: Any, relation: Relation) -> tuple[list[float], list[float]]:
    """Return both distributions, over groups of buckets that are alike."""
    k = event.num_buckets
    other = event.noise_parameter / k
    own = (1 - event.noise_parameter) + other
    if relation == "replace_one":
        rest = [(k - 2) * other] if k > 2 else []
        return [own, other, *rest], [other, own, *rest]
    return [own, (k - 1) * other], [1 / k, (k - 1) / k]


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.discrete import discrete_profile

    present, absent = _pairs(event, relation)
    if relation == "replace_one":
        return (discrete_profile(present, absent),)
    return discrete_profile(present, absent), discrete_profile(absent, present)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    import numpy as np

    from dppipe.privacy.rdp.discrete import discrete_divergences

    present, absent = _pairs(event, relation)
    removed = discrete_divergences(present, absent, orders)
    return np.maximum(removed, discrete_divergences(absent, present, orders))


def _epsilon(event: Any, relation: Relation) -> float:
    """Return the largest loss, rounded up."""
    k = event.num_buckets
    p = event.noise_parameter
    if relation == "replace_one":
        return math.log1p(k * (1 - p) / p) * _UPWARD
    return max(math.log1p((k - 1) * (1 - p)), -math.log(p)) * _UPWARD


_RELATIONS: tuple[Relation, ...] = ("zero_out", "replace_one")

RULE = EventRule(
    name="RandomizedResponseDpEvent",
    fields={"noise_parameter": "float", "num_buckets": "int"},
    meaning=(
        "The record's bucket out of `num_buckets`, or with probability `noise_parameter` one at "
        "random. Under `replace_one` the bucket becomes another one; under `zero_out` a record "
        "that isn't there answers at random."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=_RELATIONS,
            source="Warner 1965; `pld/PROOF.md`, lemma 17 (exact)",
        ),
        Proof(
            accountants=("rdp",),
            relations=_RELATIONS,
            source="Mironov 2017, proposition 5; a sum over the buckets (exact)",
            filters=("rdp",),
        ),
        Proof(
            accountants=("zcdp", "tcdp"),
            relations=_RELATIONS,
            source="Bun and Steinke 2016, proposition 1.4: epsilon^2/2 of its pure epsilon",
            filters=("zcdp", "tcdp"),
        ),
        Proof(
            accountants=("basic", "advanced"),
            relations=_RELATIONS,
            source="Warner 1965: pure epsilon",
            filters=("advanced",),
        ),
    ),
    parts=_parts,
    canonical=_canonical,
    profile=_profile,
    reach=_epsilon,
    divergences=_divergences,
    rho=lambda event, relation: _epsilon(event, relation) ** 2 / 2,
    one_step=lambda event, relation, delta: _epsilon(event, relation),
    own_delta=lambda event: 0.0,
)
