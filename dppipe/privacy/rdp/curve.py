"""What Renyi divergences, added up over all steps, say about epsilon and delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RenyiCurve:
    """The Renyi divergence at each of some orders; an order where it is infinite says nothing."""

    orders: tuple[float, ...]
    divergences: NDArray[np.float64]

    @classmethod
    def zero(cls, orders: tuple[float, ...]) -> Self:
        """Return the curve of doing nothing."""
        return cls(orders, np.zeros(len(orders)))

    def plus(self, divergences: NDArray[np.float64], count: int) -> Self:
        """Add divergences a number of times.

        They add up at every order (Mironov 2017, proposition 1).
        """
        return replace(self, divergences=self.divergences + count * divergences)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon over all orders."""
        return float(self._epsilons(delta).min())

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta over all orders."""
        alphas = np.asarray(self.orders)
        logs = (alphas - 1) * (self.divergences - epsilon + np.log1p(-1 / alphas)) - np.log(alphas)
        return float(min(1.0, math.exp(min(0.0, float(logs.min()))), self._total_variation()))

    def parameters(self) -> dict[str, Any]:
        """Return the divergence at each order where it is finite."""
        orders: list[float] = []
        values: list[float] = []
        for order, value in zip(self.orders, self.divergences, strict=True):
            if value < math.inf:
                orders.append(order)
                values.append(float(value))
        return {"orders": orders, "divergences": values}

    def _epsilons(self, delta: float) -> NDArray[np.float64]:
        """Convert at every order (Canonne, Kamath and Steinke 2020, proposition 12)."""
        if self._total_variation() <= delta:
            return np.zeros(len(self.orders))
        alphas = np.asarray(self.orders)
        converted = self.divergences + np.log1p(-1 / alphas) - np.log(delta * alphas) / (alphas - 1)
        return np.asarray(np.maximum(converted, 0.0))

    def _total_variation(self) -> float:
        """Bound delta at epsilon 0 by the Kullback-Leibler divergence.

        No Renyi divergence lies below it.
        """
        return math.sqrt(-math.expm1(-float(self.divergences.min())))
