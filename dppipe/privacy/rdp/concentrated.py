"""Concentrated differential privacy: Renyi divergences at most rho times the order.

The bound holds up to an order omega. zCDP (Bun and Steinke 2016) is the case without limit;
sampling doesn't amplify it. tCDP (Bun, Dwork, Rothblum and Steinke 2018) is amplified. Both convert
to (epsilon, delta) by the best order allowed, as any Renyi bound does.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule, rule_of
from dppipe.privacy.rdp.divergences import divergences

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

LIMITS: tuple[float, ...] = (
    *map(float, 1.01 ** np.arange(1, 417)),
    *map(float, sorted({math.ceil(64 * 1.01**power) for power in range(280)})),
)
"""The orders omega up to which sampled steps are bounded: one percent apart, fractional below 64
and whole above."""


def zcdp_epsilon(rho: float, delta: float, *, omega: float = math.inf) -> float:
    """Convert at the best order up to omega (Canonne, Kamath and Steinke 2020, proposition 12)."""
    if rho == 0 or rho == math.inf:
        return rho
    # The best order is near 1 + sqrt(ln(1/delta) / rho); every order gives a bound, so a fine grid
    # is as good as a search.
    centre = math.sqrt(math.log(1 / delta) / rho)
    orders = 1 + np.clip(centre * np.exp(np.linspace(-3, 3, 4001)), 1e-9, omega - 1)
    values = rho * orders + np.log1p(-1 / orders) - np.log(orders * delta) / (orders - 1)
    return max(0.0, float(values.min()))


def zcdp_delta(rho: float, epsilon: float, *, omega: float = math.inf) -> float:
    """Return the smallest delta at this epsilon over the orders up to omega."""
    if rho == 0 or rho == math.inf:
        return min(rho, 1.0)
    centre = max(epsilon / rho, 1.0)
    orders = 1 + np.clip(centre * np.exp(np.linspace(-7, 2, 4001)), 1e-9, omega - 1)
    logs = (orders - 1) * (rho * orders - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return math.exp(min(0.0, float(logs.min())))


def release_rho(event: DpEvent, *, relation: Relation) -> float | None:
    """Return the zCDP of an event, such as a release on the whole dataset; None if it has none.

    It is 1/2s^2 for Gaussian noise and epsilon^2/2 for Laplace noise.
    """
    rule = rule_of(event)
    if rule.rho is None or rule.proof("zcdp", event, relation=relation) is None:
        return None
    return rule.rho(event, relation)


@functools.lru_cache(maxsize=1024)
def sampled_rhos(event: DpEvent, *, relation: Relation) -> NDArray[np.float64]:
    """Return, for each limit omega, a rho with which the event is (rho, omega)-tCDP.

    Guarantee: between two orders of the grid a divergence is at most that at the upper one, and rho
    times the order is at least that at the lower one; so the largest ratio of neighbours up to
    omega bounds every order below it.
    """
    rho = release_rho(event, relation=relation)
    if rho is not None:
        return np.full(len(LIMITS), rho)
    proven_rule("tcdp", event, relation=relation)
    values = divergences(event, relation=relation, orders=LIMITS)
    return np.asarray(np.maximum.accumulate(values / np.concatenate([[1.0], LIMITS[:-1]])))


@dataclass(frozen=True)
class ConcentratedCurve:
    """The privacy curve of rho-zCDP."""

    rho: float

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at this delta."""
        return zcdp_epsilon(self.rho, delta)

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon."""
        return zcdp_delta(self.rho, epsilon)

    def parameters(self) -> dict[str, Any]:
        """Return rho, which determines the curve."""
        return {"rho": self.rho}


@dataclass(frozen=True)
class TruncatedCurve:
    """The privacy curve of (rho, omega)-tCDP for many limits omega at once, each a bound."""

    rhos: NDArray[np.float64]

    @classmethod
    def zero(cls) -> Self:
        """Return the curve of doing nothing."""
        return cls(np.zeros(len(LIMITS)))

    def plus(self, rhos: NDArray[np.float64], count: int) -> Self:
        """Add rhos a number of times: at each limit they add up."""
        return replace(self, rhos=self.rhos + count * rhos)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon over all limits."""
        return min(
            zcdp_epsilon(float(self.rhos[i]), delta, omega=LIMITS[i]) for i in self._worth_trying
        )

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta over all limits."""
        return min(
            zcdp_delta(float(self.rhos[i]), epsilon, omega=LIMITS[i]) for i in self._worth_trying
        )

    def parameters(self) -> dict[str, Any]:
        """Return rho at some of the limits."""
        omegas: list[float] = []
        rhos: list[float] = []
        for i in self._worth_trying:
            if self.rhos[i] < math.inf:
                omegas.append(LIMITS[i])
                rhos.append(float(self.rhos[i]))
        return {"omegas": omegas, "rhos": rhos}

    @property
    def _worth_trying(self) -> range:
        return range(30, len(LIMITS), 10)
