"""Renyi divergences of single events at any orders: closed forms and, where there is none, a quadrature.

Sampling without replacement is asked of dp_accounting, with half the noise multiplier: it doesn't double the sensitivity
under replace_one by itself. Read next: `renyi.py`, where divergences are added up and become epsilon and delta.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.balls_in_bins import bin_divergences

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *map(float, range(11, 64)),
    128.0,
    256.0,
    512.0,
    1024.0,
)
"""dp_accounting's own default orders: fine where training budgets lie, coarse above."""

_ROUND_OFF = 1e-14
_MOMENT_ROUND_OFF = 2e-15
_RELATIVE_ROUND_OFF = 1e-13
"""More than float64 arithmetic takes from a divergence, the logarithm of its moment, and a share of either, by comparison with
mpmath: each is added, so that a tiny divergence can't come out as nothing or less."""
_LONGEST_QUADRATURE = 1 << 16


@functools.lru_cache(maxsize=4096)
def divergences(
    event: DpEvent, *, relation: Relation, orders: tuple[float, ...] = ORDERS
) -> NDArray[np.float64]:
    """Give an event's Renyi divergence at each order, an upper bound; infinite at an order where none is known."""
    name, alphas = type(event).__name__, np.asarray(orders, dtype=np.float64)
    sensitivity = 2.0 if relation == "replace_one" else 1.0
    inner: Any = getattr(event, "event", None)
    if name == "GaussianDpEvent":
        values = alphas * (sensitivity / event.noise_multiplier) ** 2 / 2
    elif name == "LaplaceDpEvent":
        values = laplace_divergences(sensitivity / event.noise_multiplier, alphas)
    elif (
        name == "PoissonSampledDpEvent"
        and type(inner).__name__ == "GaussianDpEvent"
        and relation != "replace_one"
    ):
        values = sampled_divergences(
            inner.noise_multiplier, event.sampling_probability, alphas
        ) + _round_off(alphas)
    elif (
        name == "SampledWithoutReplacementDpEvent"
        and type(inner).__name__ == "GaussianDpEvent"
        and relation == "replace_one"
    ):
        values = _subset_divergences(event, alphas) + _round_off(alphas)
    elif (
        name == "BallsInBinsDpEvent"
        and type(inner).__name__ == "GaussianDpEvent"
        and relation == "zero_out"
    ):
        values = bin_divergences(inner.noise_multiplier, event.bins, alphas)
    else:
        raise PrivacyRefusal(
            f"accountant rdp: expected an event that it can bound under {relation}, got {name}"
            f"{f' of {type(inner).__name__}' if inner is not None else ''}. Take accountant: pld, where it has a bound."
        )
    values = np.where(np.isnan(values), np.inf, values * (1 + _RELATIVE_ROUND_OFF))
    values.flags.writeable = False
    return values


def _round_off(orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound what a sampled divergence can be short of: near order 1 the round-off of its moment is divided by very little."""
    return np.asarray(_ROUND_OFF + _MOMENT_ROUND_OFF / (orders - 1))


def laplace_divergences(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the divergence of an epsilon-DP Laplace release (Mironov 2017, proposition 6), relative to its limit epsilon.

    Of a small epsilon the two terms all but cancel, and leave a round-off in proportion to it; more than that is added.
    """
    below = np.log1p((orders - 1) * np.expm1((1 - 2 * orders) * epsilon) / (2 * orders - 1)) / (
        orders - 1
    )
    return np.asarray(epsilon * (1 + 1e-15) + below)


def sampled_divergences(z: float, rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the divergence of the Poisson-sampled Gaussian, removing a record, which dominates adding one.

    Whole orders have a finite sum (Mironov, Talwar and Zhang 2019, section 3.3); others below 64 are integrated by the
    trapezoid rule, whose error on this analytic and fast-falling integrand is below float64's.
    """
    values = np.full(len(orders), np.inf)
    for i, order in enumerate(orders):
        if order == int(order):
            values[i] = _whole_order(z, rate, int(order))
    broken = np.flatnonzero((orders != np.floor(orders)) & (orders < 64))
    if len(broken):
        values[broken] = _quadrature(z, rate, orders[broken])
    return np.asarray(np.maximum(values, 0.0))


def _whole_order(z: float, rate: float, order: int) -> float:
    k = np.arange(order + 1)
    logs = (
        _log_binomials(order)
        + (order - k) * np.log1p(-rate)
        + k * np.log(rate)
        + (k * k - k) / (2 * z**2)
    )
    return float(log_sum(logs)) / (order - 1)


@functools.lru_cache(maxsize=256)
def _log_binomials(order: int) -> NDArray[np.float64]:
    k = np.arange(order + 1)
    return np.asarray(
        special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    )


def _quadrature(z: float, rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integrate N(0, z^2)(x) (1 - q + q e^((2x - 1) / 2z^2))^a over a range that holds the mass at every order a."""
    # The integrand is analytic within pi z^2 of the real line (beyond lie its branch points) and falls like a Gaussian of
    # width z; this step makes the rule's error, exp(-2 pi distance / step), smaller than round-off on both counts.
    step = min(z / 8, z**2 / 2)
    low, high = -12 * z, float(orders.max()) + 12 * z
    if (high - low) / step > _LONGEST_QUADRATURE:
        return np.full(len(orders), np.inf)
    x = np.arange(low, high + step, step)
    log_ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x - 1) / (2 * z**2))
    log_weights = -((x / z) ** 2) / 2
    logs = orders[:, None] * log_ratio[None, :] + log_weights[None, :]
    # Over the same rule's sum of the density alone, which is 1: so what its weights are off by cancels out.
    return np.asarray((log_sum(logs) - log_sum(log_weights)) / (orders - 1))


def log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the logarithm of a sum over the last axis, from the logarithms of its terms."""
    largest = logs.max(axis=-1)
    return np.asarray(largest + np.log(np.exp(logs - largest[..., None]).sum(axis=-1)))


def _subset_divergences(event: DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the divergence of a uniform subset of fixed size (Wang, Balle and Kasiviswanathan 2019), at half the noise."""
    import attr
    import dp_accounting
    from dp_accounting import rdp

    halved = attr.evolve(
        event, event=attr.evolve(event.event, noise_multiplier=event.event.noise_multiplier / 2)
    )
    accountant = rdp.RdpAccountant(list(orders), dp_accounting.NeighboringRelation.REPLACE_ONE)
    return np.maximum(np.asarray(accountant.compose(halved).rdp, dtype=np.float64), 0.0)
