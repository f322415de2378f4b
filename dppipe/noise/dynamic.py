"""Dynamic noise: the shape that is best for gradient descent on a loss that falls geometrically (Hong, Wang and Zhou 2022).

Noise at step t of T reaches the final loss with weight `q_t`; the least total `sum q_t sigma_t^2` for a given privacy loss
`sum 1 / sigma_t^2` has `sigma_t` in proportion to `q_t^(-1/4)` (their equation 10). Without momentum `q_t = gamma^(T - t)`.
"""

from __future__ import annotations

from dppipe.component import Field
from dppipe.noise.base import NoiseSchedule


class Dynamic(NoiseSchedule, kind="dynamic"):
    """Noise that falls by the fourth root of `gamma` at every step: later steps count for more in the result.

    The optimum is proven for full batches under a loss of which `gamma` is known; elsewhere it is a shape like any other. It is
    fixed before the run: to estimate `gamma` from private training would cost privacy.
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
