"""Renyi divergences of an epoch of balls in bins (Chua et al. 2024).

Records fall independently of each other. An epoch is dominated by the pair P = (1/b) sum_t N(e_t,
z^2 I) and Q = N(0, z^2 I) over its b releases, for a record whose gradient becomes zero.
`dppipe.privacy.events.balls_in_bins` holds the event.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIGHEST = 256
"""The highest order at which removing a record is computed."""
_ROUND_OFF = 1e-15
_CUT = 1e-31
_MARGIN = 1e-9
"""Relative, on a moment: far more than the quadrature's error."""


def bin_divergences(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Renyi divergence of one epoch at each order, for the worse direction.

    Guarantee: an upper bound in both directions. Removing is exact at whole orders, and between
    them (order - 1) times the divergence is convex; adding is a quadrature with its error added, or
    Jensen's bound where that is smaller.
    """
    # A mixture is no further apart than the furthest of its parts.
    known_bin = np.asarray(orders / (2 * z**2))
    if bins == 1:
        return known_bin
    return np.minimum(np.maximum(_removed(z, bins, orders), _added(z, bins, orders)), known_bin)


def _removed(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of P from Q, removing a record.

    Its moment at a whole order a is a! b^-a [x^a] (sum_k x^k e^((k^2-k)/2z^2) / k!)^b.
    """
    whole = np.arange(_HIGHEST + 1)
    series = (whole**2 - whole) / (2 * z**2) - special.gammaln(whole + 1)
    logs = special.gammaln(whole + 1) - whole * math.log(bins) + _power(series, bins)
    logs[:2] = 0.0  # the moments of orders 0 and 1 are 1
    between = np.interp(orders, whole, np.maximum(logs, 0.0), right=math.inf)
    return np.asarray(between / (orders - 1) + _ROUND_OFF * bins)


def _power(logs: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Raise a power series to a whole power.

    Its coefficients are positive and given by their logarithms.
    """
    result = None
    square = logs
    while count:
        if count & 1:
            result = square if result is None else _product(result, square)
        count >>= 1
        if count:
            square = _product(square, square)
    return logs if result is None else result


def _product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    places = np.arange(len(left))
    behind = places[:, None] - places[None, :]
    # [k, j]: left_j right_(k-j)
    terms = np.where(behind >= 0, left[None, :] + right[behind], -np.inf)
    largest = terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1)))


def _added(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of Q from P, adding a record.

    It is the moment of S = (1/b) sum_t L_t to the power 1 - a, where ln L_t ~ N(-1/2z^2, 1/z^2).
    S^-p is the integral of s^(p-1) e^(-s S) / Gamma(p) over s > 0, and the mean of e^(-s S) is that
    of e^(-s L / b) to the b.
    """
    powers = orders - 1
    jensen = 1 / (2 * z**2) + powers / (2 * bins * z**2)  # ln S >= the mean of ln L_t
    # Jensen's bound for the next power, which bounds the tail of s.
    following = (powers + 1) / (2 * z**2) + (powers + 1) ** 2 / (2 * bins * z**2)
    tops = np.log(powers) + following + 40
    found = np.full(len(orders), math.inf)
    for low, high in itertools.pairwise((0.0, 1.0, 4.0, 16.0, 64.0, 256.0)):
        near = np.flatnonzero((powers > low) & (powers <= high) & (tops < 200))
        if len(near):
            # The integrand is analytic within about 1/sqrt(p) in ln s.
            step = 0.12 / math.sqrt(high + 1)
            logs = np.arange(-40 / float(powers[near].min()), float(tops[near].max()) + step, step)
            decay = bins * _log_decay(np.exp(logs) / bins, 1 / z)
            for i in near:
                found[i] = _added_at(float(powers[i]), logs[logs <= tops[i]], decay, step)
    return np.asarray(np.minimum(found, jensen))


def _added_at(
    power: float, logs: NDArray[np.float64], decay: NDArray[np.float64], step: float
) -> float:
    total = special.logsumexp(power * logs + decay[: len(logs)])
    log_moment = total + math.log(step) - special.gammaln(power)
    return (max(float(log_moment), 0.0) + _MARGIN) / power


def _log_decay(rates: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Bound the logarithm of the mean of e^(-u L) at each u.

    Here ln L is normal with mean -deviation^2 / 2. What is cut off beyond 12 deviations, and the
    trapezoid rule's error, is below `_CUT`: the integrand is analytic and bounded within pi/2 of
    the real line. Near 1 the distance to 1 is added up instead, which is exact for small u.
    """
    step = min(deviation / 12, math.pi / 24)
    x = np.arange(-12 * deviation, 12 * deviation + step, step)
    weights = np.exp(-((x / deviation) ** 2) / 2) * step / (deviation * math.sqrt(2 * math.pi))
    exponents = -rates[:, None] * np.exp(x - deviation**2 / 2)[None, :]
    falls = np.expm1(exponents) @ weights
    near_one = np.log1p(np.clip(falls, -1.0, -_ROUND_OFF) + _ROUND_OFF)
    far = np.log(np.exp(exponents) @ weights + _CUT) + _ROUND_OFF
    return np.asarray(np.where(falls > -0.5, near_one, far))
