"""Estimates of epsilon from the scores of canaries: each needs a model, and none is a bound.

In a correct step the scores of reserved canaries are independent. Privacy doesn't imply that, so
what follows from it is marked ESTIMATE wherever it is shown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dppipe.audit.counts import TwoWorlds
from dppipe.privacy.gaussian import GaussianCurve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def normal_epsilon(
    scores: NDArray[np.float64],  # [m]
    present: NDArray[np.bool_],  # [m]
    *,
    delta: float,
) -> float:
    """Return epsilon as if the scores in and out were normal with one spread.

    After Andrew et al. (2023), "One-shot empirical privacy estimation".
    """
    inside = scores[present]
    outside = scores[~present]
    if len(inside) < 2 or len(outside) < 2:
        return 0.0
    spread = math.sqrt((float(inside.var(ddof=1)) + float(outside.var(ddof=1))) / 2)
    if not 0 < spread < math.inf:
        return 0.0
    mu = (float(inside.mean()) - float(outside.mean())) / spread
    return GaussianCurve(max(mu, 0.0)).epsilon(delta)


def independent_epsilon(
    scores: NDArray[np.float64],  # [m]
    present: NDArray[np.bool_],  # [m]
    *,
    delta: float,
    level: float,
) -> float:
    """Return the bound of two worlds as if scores were independent, at the threshold 0.

    A score above 0 says that the releases are likelier with the canary than without it.
    """
    above = scores > 0
    counts = TwoWorlds(
        int((above & present).sum()),
        int(present.sum()),
        int((above & ~present).sum()),
        int((~present).sum()),
    )
    if not counts.draws_with or not counts.draws_without:
        return 0.0
    return counts.epsilon(delta=delta, error=level)
