"""Dynamic noise for gradient descent with momentum: as `dynamic`, with other weights.

Source: Hong, Wang and Zhou 2022. With k = T - t + 1 steps to go, noise reaches the final loss with
weight `q_t = (beta^(2k) - gamma^k) / (beta^2 - gamma)`, or `k gamma^(k - 1)` where `beta^2` equals
`gamma`. Momentum also averages out the noise of the last steps, so the best noise can rise.
"""

from __future__ import annotations

import math

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule


class DynamicMomentum(NoiseSchedule, kind="dynamic_momentum"):
    """Noise that is smaller at steps whose noise momentum carries further into the result.

    A step's noise is proportional to `q_t^(-1/4)`. The optimum is proven for full batches and a
    loss whose `gamma` is known; elsewhere it is a shape like any other. It is fixed before the run:
    estimating `gamma` from private training would cost privacy.
    """

    beta: float = Field(0.9, gt=0, lt=1, description="The optimizer's momentum.")
    gamma: float = Field(
        0.99, gt=0, lt=1, description="What the distance to the optimum is multiplied by at a step."
    )
    floor: float = Field(
        0.1,
        gt=0,
        le=1,
        description="The least noise, as a multiple of the first, however long the run.",
    )

    def relative(self, steps: int) -> list[float]:
        # In logarithms, since the weights of long runs underflow.
        logs = [self._log_weight(steps - t) for t in range(steps)]
        return [max(self.floor, math.exp((logs[0] - log) / 4)) for log in logs]

    def _log_weight(self, left: int) -> float:
        """Return the logarithm of a step's weight with `left` steps to go."""
        larger = max(self.beta**2, self.gamma)
        smaller = min(self.beta**2, self.gamma)
        ratio = math.log(smaller / larger)
        spread = math.expm1(left * ratio) / math.expm1(ratio) if ratio else float(left)
        return (left - 1) * math.log(larger) + math.log(spread)
