"""Dynamic noise: the best shape for gradient descent on a loss that falls geometrically.

Source: Hong, Wang and Zhou 2022. Noise at step t of T reaches the final loss with weight `q_t`. For
a given privacy loss `sum 1 / sigma_t^2`, the total `sum q_t sigma_t^2` is least where `sigma_t` is
proportional to `q_t^(-1/4)` (their equation 10). Without momentum `q_t = gamma^(T - t)`.
"""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule


class Dynamic(NoiseSchedule, kind="dynamic"):
    """Noise that falls by the fourth root of `gamma` at every step: later steps matter more.

    The optimum is proven for full batches and a loss
    whose `gamma` is known; elsewhere it is a shape like any other. It is fixed before the run:
    estimating `gamma` from private training would cost privacy.
    """

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
        return [max(self.floor, self.gamma ** (t / 4)) for t in range(steps)]
