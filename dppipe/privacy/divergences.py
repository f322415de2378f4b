"""Renyi divergences of single events over a fixed grid of orders, and what their sum says about (epsilon, delta).

The numbers come from dp_accounting, asked in the only ways that it answers rightly: finite Python floats, one Gaussian inside
a sampler, and half the noise multiplier under replace_one, which it doesn't double by itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(a) for a in range(11, 64)),
    128.0,
    256.0,
    512.0,
    1024.0,
)
"""dp_accounting's own default orders: fine where training budgets lie, coarse above."""

_ROUND_OFF = 1e-14
"""Added to each sampled divergence: more than its round-off, so that a tiny one can't come out as nothing or less."""


@dataclass(frozen=True)
class RenyiCurve:
    """The Renyi divergence at each order of `ORDERS`."""

    divergences: NDArray[np.float64]

    @classmethod
    def sum(cls, parts: Iterable[tuple[NDArray[np.float64], int]]) -> Self:
        """Add up divergences, each taken a number of times (Mironov 2017, proposition 1)."""
        total = np.zeros(len(ORDERS))
        for divergences, count in parts:
            total = total + count * divergences
        return cls(total)

    def epsilon(self, delta: float) -> float:
        """Give the smallest epsilon over all orders."""
        from dp_accounting import rdp

        return float(rdp.compute_epsilon(ORDERS, self.divergences, delta)[0])

    def delta(self, epsilon: float) -> float:
        """Give the smallest delta over all orders."""
        from dp_accounting import rdp

        return float(rdp.compute_delta(ORDERS, self.divergences, epsilon)[0])

    def best_order(self, delta: float) -> float:
        """Give the order at which epsilon is smallest."""
        from dp_accounting import rdp

        return float(rdp.compute_epsilon(ORDERS, self.divergences, delta)[1])

    def parameters(self) -> dict[str, Any]:
        """Give the divergence at each order where it is finite."""
        finite = [(a, float(r)) for a, r in zip(ORDERS, self.divergences, strict=True) if math.isfinite(r)]
        return {"orders": [a for a, _ in finite], "divergences": [r for _, r in finite]}


@functools.lru_cache(maxsize=4096)
def divergences(event: DpEvent, *, relation: Relation, orders: tuple[float, ...] = ORDERS) -> NDArray[np.float64]:
    """Give an event's Renyi divergence at each order, an upper bound; infinite at an order where none is known."""
    import dp_accounting
    from absl import logging
    from dp_accounting import rdp

    neighbours = dp_accounting.NeighboringRelation
    asked = halved(event) if relation == "replace_one" else event
    accountant = rdp.RdpAccountant(orders, neighbours.REPLACE_ONE if relation == "replace_one" else neighbours.REPLACE_SPECIAL)
    if not accountant.supports(asked):
        raise PrivacyRefusal(
            f"accountant rdp: expected an event that it can bound under {relation}, got {type(event).__name__}. "
            "Take accountant: pld, or look for a pair that works with dppipe account."
        )
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # an order that doesn't converge is left out, which is safe
    try:
        values = accountant.compose(asked).rdp
    finally:
        logging.set_verbosity(before)
    sampled = hasattr(asked, "event")
    values = np.maximum(np.asarray(values, dtype=np.float64), 0.0) + (_ROUND_OFF if sampled else 0.0)
    values[np.isnan(values)] = math.inf
    values.flags.writeable = False
    return values


def halved(event: DpEvent) -> DpEvent:
    """Give the event at half its noise multiplier: a replaced record moves a sum by twice one record's bound."""
    import attr

    if hasattr(event, "event"):
        return attr.evolve(event, event=halved(event.event))
    return attr.evolve(event, noise_multiplier=event.noise_multiplier / 2)
