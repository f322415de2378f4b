"""How much more likely a release is with a canary than without it.

With sigma the noise on a sum, c how far a canary moves it and y the noisy sum along the canary's
direction, ln of the ratio is  (y c - c^2 / 2) / sigma^2  for Gaussian noise, and
(|y| - |y - c|) / b  for Laplace noise of scale b. Under `replace_one` a canary moves the sum by +c
or -c, and the ratio is that of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def log_ratio(
    noisy: ArrayLike,  # [m]
    *,
    shift: ArrayLike,  # [m], or one number
    noise: float,
    laplace: bool = False,
) -> NDArray[np.float64]:  # -> [m]
    """Return ln of the density with a canary that is drawn, over the density without it."""
    place = np.asarray(noisy, dtype=np.float64)
    moved = np.asarray(shift, dtype=np.float64)
    if laplace:
        return np.asarray((np.abs(place) - np.abs(place - moved)) / noise)
    return np.asarray((place * moved - moved * moved / 2) / noise**2)


def mixed(exponents: NDArray[np.float64], *, rate: float) -> NDArray[np.float64]:
    """Return ln(1 - rate + rate e^exponent): the ratio of a canary that is drawn at this rate."""
    if rate >= 1:
        return exponents
    return np.asarray(np.logaddexp(np.log1p(-rate), np.log(rate) + exponents))
