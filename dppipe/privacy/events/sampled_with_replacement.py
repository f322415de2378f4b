"""A mechanism on a fixed number of independent picks, so that a record can be repeated."""

from __future__ import annotations

from typing import Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers
from dppipe.privacy.events.nesting import (
    inner_multiplier,
    inner_numbers,
    is_canonical_noise,
    with_inner_noise,
    with_one_mechanism,
)
from dppipe.privacy.proofs import Proof


def _is_canonical(event: Any) -> bool:
    picks = event.sample_size
    records = event.source_dataset_size
    whole = type(picks) is int and type(records) is int and 0 < picks < records
    return whole and is_canonical_noise(event.event)


def _numbers(event: Any) -> Numbers | None:
    return inner_numbers(event, event.source_dataset_size, event.sample_size)


def _one_step(event: Any, relation: Relation, delta: float) -> float:
    from dppipe.privacy.textbook.one_step import drawn_again_epsilon

    return drawn_again_epsilon(
        event.source_dataset_size, event.sample_size, event.event.noise_multiplier, delta
    )


RULE = EventRule(
    name="SampledWithReplacementDpEvent",
    fields={"source_dataset_size": "int", "sample_size": "int", "event": "event"},
    meaning=(
        "A mechanism on `sample_size` independent picks out of `source_dataset_size` records, each "
        "of which may be the same record. The noise multiplier of the event inside is over the "
        "bound on one copy of one record."
    ),
    proofs=(
        Proof(
            accountants=("basic", "advanced"),
            relations=("replace_one",),
            inside="GaussianDpEvent",
            source="Balle, Barthe and Gaboardi 2018, theorem 10",
        ),
    ),
    is_canonical=_is_canonical,
    canonical=with_one_mechanism,
    multiplier=inner_multiplier,
    numbers=_numbers,
    with_numbers=with_inner_noise,
    one_step=_one_step,
)
