"""The curve of a claim that is known at one epsilon and one delta only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OnePoint:
    """What (epsilon, delta)-differential privacy says at every other epsilon and delta."""

    known_epsilon: float
    known_delta: float

    def epsilon(self, delta: float) -> float:
        """Return the known epsilon, or less at a larger delta; infinity at a smaller one."""
        if delta < self.known_delta:
            return math.inf
        if delta >= self.delta(0.0):
            return 0.0
        # The inverse of `delta`, which is linear in e^epsilon.
        share = (delta - self.known_delta) / (1 - self.known_delta)
        rest = 1 - share * (1 + math.exp(-self.known_epsilon))
        return max(0.0, self.known_epsilon + math.log(rest))

    def delta(self, epsilon: float) -> float:
        """Return the known delta; below the known epsilon, the largest that the claim allows.

        An event of probability Q in one world and P in the other satisfies P <= e^e Q + d and
        1 - Q <= e^e (1 - P) + d; P - e^epsilon Q is largest where both are equalities.
        """
        if epsilon >= self.known_epsilon:
            return self.known_delta
        share = -math.expm1(epsilon - self.known_epsilon) / (1 + math.exp(-self.known_epsilon))
        return min(1.0, self.known_delta + share * (1 - self.known_delta))

    def parameters(self) -> dict[str, Any]:
        """Return the one point."""
        return {"epsilon": self.known_epsilon, "delta": self.known_delta}
