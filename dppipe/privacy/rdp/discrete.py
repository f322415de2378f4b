"""Renyi divergences of two distributions over finitely many outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dppipe.privacy.rdp.divergences import log_sum, moment_round_off
from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray


def discrete_divergences(
    present: Sequence[float], absent: Sequence[float], orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ln(sum of p^a q^(1-a)) / (a - 1) at each order a; every outcome has p > 0 and q > 0.

    Guarantee: never below the exact divergence: more than the logarithms can be off is added.
    """
    p = np.log(np.asarray(present, dtype=np.float64))
    q = np.log(np.asarray(absent, dtype=np.float64))
    moments = log_sum(orders[:, None] * p[None, :] + (1 - orders)[:, None] * q[None, :])
    off = 16 * UNIT * (np.abs(p).max() + np.abs(q).max()) * orders / (orders - 1)
    return np.asarray(np.maximum(moments / (orders - 1), 0.0) + off + moment_round_off(orders))
