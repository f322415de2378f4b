"""An epoch in which each record falls into one of b batches (Chua et al. 2024).

dp_accounting doesn't have the event, so that its class stands here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import EventRule, Numbers
from dppipe.privacy.events.nesting import (
    inner_multiplier,
    inner_numbers,
    inner_reach,
    with_inner_noise,
)
from dppipe.privacy.proofs import Proof

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Direction


@functools.cache
def event_class() -> Any:
    """Return the event of one epoch: `bins` batches, each released by the mechanism `event`."""
    import attr
    from dp_accounting import dp_event

    @attr.define(frozen=True)
    class BallsInBinsDpEvent(dp_event.DpEvent):  # type: ignore[misc]
        """An epoch in which each record falls into one of `bins` batches."""

        bins: int
        event: dp_event.DpEvent

    return BallsInBinsDpEvent


def _numbers(event: Any) -> Numbers | None:
    return inner_numbers(event, event.bins)


def _profile(event: Any, relation: Relation) -> tuple[Direction, ...]:
    from dppipe.privacy.profiles.draws import drawn_profile, sampled_losses

    removed, added = sampled_losses(event.event.noise_multiplier, event.bins)
    return drawn_profile(removed), drawn_profile(added)


def _divergences(
    event: Any, relation: Relation, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    from dppipe.privacy.rdp.balls_in_bins import bin_divergences

    return bin_divergences(event.event.noise_multiplier, event.bins, orders)


RULE = EventRule(
    name="BallsInBinsDpEvent",
    fields={"bins": "int", "event": "event"},
    meaning=(
        "An epoch of `bins` releases, in a random one of which each record is. The noise "
        "multiplier of the event inside is over the bound on one record."
    ),
    proofs=(
        Proof(
            accountants=("rdp",),
            relations=("zero_out",),
            inside="GaussianDpEvent",
            source="Chua et al. 2024 for the dominating pair; closed moments of it",
        ),
        Proof(
            accountants=("pld",),
            relations=("zero_out",),
            inside="GaussianDpEvent",
            source="an average of random draws",
            estimate=True,
        ),
    ),
    event_class=event_class,
    multiplier=inner_multiplier,
    numbers=_numbers,
    with_numbers=with_inner_noise,
    profile=_profile,
    reach=inner_reach,
    divergences=_divergences,
)
