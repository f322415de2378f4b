"""Balls in bins: each record falls into one of b batches of an epoch, independently of the others (Chua et al. 2024).

An epoch is dominated by the pair P = (1/b) sum_t N(e_t, z^2 I) and Q = N(0, z^2 I) over its b releases, for a record whose
gradient becomes zero. `event_class` is the event, which dp_accounting doesn't have; `bin_divergences` bounds its Renyi
divergences, which certify; `sampled_losses` draws privacy losses of an epoch, from which only estimates can be made.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIGHEST = 256
"""The highest order at which removing a record is worked out."""
_ROUND_OFF = 1e-15
_MARGIN = 1e-9
"""Relative, on a moment: far more than the quadrature's error."""


@functools.cache
def event_class() -> Any:
    """Give the event of one epoch: `bins` batches, each released by the mechanism `event`."""
    import attr
    from dp_accounting import dp_event

    @attr.define(frozen=True)
    class BallsInBinsDpEvent(dp_event.DpEvent):  # type: ignore[misc]
        """An epoch in which each record falls into one of `bins` batches."""

        bins: int
        event: dp_event.DpEvent

    return BallsInBinsDpEvent


def bin_divergences(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the Renyi divergence of one epoch at each order: the larger of removing and adding a record.

    Guarantee: an upper bound in both directions. Removing is exact at whole orders, and between them (order - 1) times the
    divergence is convex; adding is a quadrature with its error added, or Jensen's bound where that is smaller.
    """
    if bins == 1:
        return np.asarray(orders / (2 * z**2))
    return np.maximum(_removed(z, bins, orders), _added(z, bins, orders))


def _removed(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the divergence of P from Q: its moment at a whole order a is a! b^-a [x^a] (sum_k x^k e^((k^2-k)/2z^2) / k!)^b."""
    whole = np.arange(_HIGHEST + 1)
    series = (whole**2 - whole) / (2 * z**2) - special.gammaln(whole + 1)
    logs = special.gammaln(whole + 1) - whole * math.log(bins) + _power(series, bins)
    logs[:2] = 0.0  # the moments of orders 0 and 1 are 1
    between = np.interp(orders, whole, np.maximum(logs, 0.0), right=math.inf)
    return np.asarray(between / (orders - 1) + _ROUND_OFF * bins)


def _power(logs: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Raise a power series with positive coefficients, given by their logarithms, to a whole power."""
    result, square = None, logs
    while count:
        if count & 1:
            result = square if result is None else _product(result, square)
        count >>= 1
        square = _product(square, square) if count else square
    return logs if result is None else result


def _product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([special.logsumexp(left[: k + 1] + right[k::-1]) for k in range(len(left))])


def _added(z: float, bins: int, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the divergence of Q from P: the moment of S = (1/b) sum_t L_t to the power 1 - a, where ln L_t ~ N(-1/2z^2, 1/z^2).

    S^-p is the integral of s^(p-1) e^(-s S) / Gamma(p) over s > 0, and the mean of e^(-s S) is that of e^(-s L / b) to the b.
    """
    powers = orders - 1
    jensen = 1 / (2 * z**2) + powers / (2 * bins * z**2)  # ln S >= the mean of ln L_t
    following = (powers + 1) / (2 * z**2) + (powers + 1) ** 2 / (2 * bins * z**2)  # of the next power, for the tail of s
    tops = np.log(powers) + following + 40
    near = (orders < 64) & (tops < 600)
    if not near.any():
        return np.asarray(jensen)
    top, bottom = float(tops[near].max()), -40 / float(powers[near].min())
    step = 0.12 / math.sqrt(float(powers[near].max()) + 1)  # the integrand is analytic within about 1/sqrt(p) in ln s
    logs = np.arange(bottom, top + step, step)
    decay = bins * _log_decay(np.exp(logs) / bins, 1 / z)
    found = np.full(len(orders), math.inf)
    for i in np.flatnonzero(near):
        p = float(powers[i])
        log_moment = special.logsumexp(p * logs + decay) + math.log(step) - special.gammaln(p)
        found[i] = (max(log_moment, 0.0) + _MARGIN) / p
    return np.minimum(found, jensen)


def _log_decay(rates: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Bound the logarithm of the mean of e^(-u L) at each u, where ln L is normal with mean -deviation^2 / 2.

    The trapezoid rule's error is below e^-50: the integrand is analytic and bounded within pi/2 of the real line.
    """
    step = min(deviation / 8, math.pi / 16)
    x = np.arange(-12 * deviation, 12 * deviation + step, step)
    weights = np.exp(-((x / deviation) ** 2) / 2) * step / (deviation * math.sqrt(2 * math.pi))
    losses = np.exp(x - deviation**2 / 2)
    with np.errstate(over="ignore"):
        falls = np.expm1(-rates[:, None] * losses[None, :]) @ weights
    return np.log1p(np.clip(falls, -1.0, -_ROUND_OFF) + _ROUND_OFF)


def sampled_losses(z: float, bins: int, *, size: int, adding: bool, seed: int = 0) -> NDArray[np.float64]:
    """Draw privacy losses of one epoch at random: ln P/Q under P, or ln Q/P under Q where a record is added."""
    generator = np.random.default_rng(seed)
    losses = np.empty(size)
    for start in range(0, size, 10_000):
        x = generator.normal(scale=z, size=(min(10_000, size - start), bins))
        if not adding:
            x[:, 0] += 1  # all bins are alike, so the record may be in the first
        losses[start : start + len(x)] = special.logsumexp((2 * x - 1) / (2 * z**2), axis=1) - math.log(bins)
    return -losses if adding else losses
