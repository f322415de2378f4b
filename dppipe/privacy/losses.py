"""Privacy loss distributions of single events and of their composition."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class LossCurve:
    """The privacy curve of a composed privacy loss distribution."""

    distribution: Any

    def epsilon(self, delta: float) -> float:
        """Give the smallest epsilon whose delta is at most this."""
        return float(self.distribution.get_epsilon_for_delta(delta))

    def delta(self, epsilon: float) -> float:
        """Give the delta at this epsilon."""
        return float(self.distribution.get_delta_for_epsilon(epsilon))

    def parameters(self) -> dict[str, Any]:
        """Nothing but the curve itself."""
        return {}


def compose_losses(counts: dict[DpEvent, int], *, relation: Relation) -> LossCurve:
    """Compose events, each taken a number of times."""
    from dp_accounting.pld import privacy_loss_distribution as library

    interval = 1e-4 if len(counts) <= 8 else 1e-3
    total = library.identity(value_discretization_interval=interval)
    for event, count in counts.items():
        total = total.compose(_loss(event, relation, interval).self_compose(count))
    return LossCurve(total)


@functools.lru_cache(maxsize=64)
def _loss(event: DpEvent, relation: Relation, interval: float) -> Any:
    import dp_accounting
    from dp_accounting import pld

    neighbours = dp_accounting.NeighboringRelation
    known = {
        "zero_out": neighbours.REPLACE_SPECIAL,
        "add_remove": neighbours.ADD_OR_REMOVE_ONE,
        "replace_one": neighbours.REPLACE_ONE,
    }
    accountant = pld.PLDAccountant(known[relation], interval)
    if not accountant.supports(event):
        raise PrivacyRefusal(f"accountant pld: expected an event that it can bound under {relation}, got {type(event).__name__}.")
    return accountant.compose(event)._pld
