"""Gaussian noise whose sum moves by a random amount, as for a user with several records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule
from dppipe.privacy.proofs import PRESENCE, Proof

if TYPE_CHECKING:
    from dppipe.privacy.profiles.sampling import Direction


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.mixtures import mixture_profiles

    return mixture_profiles(event.standard_deviation, event.sensitivities, event.sampling_probs)


def _reach(event: Any, relation: Relation) -> float:
    from dppipe.privacy.profiles.sampling import gaussian_reach

    return gaussian_reach(max(event.sensitivities, default=0.0) / event.standard_deviation)


RULE = EventRule(
    name="MixtureOfGaussiansDpEvent",
    fields={
        "standard_deviation": "float",
        "sensitivities": "floats",
        "sampling_probs": "floats",
    },
    meaning=(
        "Gaussian noise of `standard_deviation` on a sum that one record's presence moves by one "
        "of `sensitivities`, with `sampling_probs`."
    ),
    proofs=(
        Proof(
            accountants=("pld",),
            relations=PRESENCE,
            source="Choquette-Choo et al. 2024; `pld/PROOF.md`, lemma 6",
        ),
    ),
    profile=_profile,
    reach=_reach,
)
