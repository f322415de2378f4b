"""Renyi divergences of single events at any orders, by closed forms or a quadrature.

Each event's own file says which of them it has, and names the proof. Sampling without replacement
comes from dp_accounting, with half the noise multiplier, as it doesn't double the sensitivity under
replace_one by itself. Read next: `curve.py`, where divergences are added up and become epsilon and
delta.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.budget import Relation
from dppipe.privacy.events.base import proven_rule

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
"""More than float64 arithmetic takes from a divergence, the logarithm of its moment, and a share of
either, by comparison with mpmath: each is added, so that a tiny divergence can't come out as
nothing or less."""
_LONGEST_QUADRATURE = 1 << 16


@functools.lru_cache(maxsize=4096)
def divergences(
    event: DpEvent, *, relation: Relation, orders: tuple[float, ...] = ORDERS
) -> NDArray[np.float64]:
    """Return an upper bound on an event's Renyi divergence at each order.

    It is infinite at an order where no bound is known.
    """
    rule = proven_rule("rdp", event, relation=relation)
    if rule.divergences is None:
        raise PrivacyRefusal(f"accountant rdp: expected divergences of {rule.name}, got none.")
    values = rule.divergences(event, relation, np.asarray(orders, dtype=np.float64))
    values = np.where(np.isnan(values), np.inf, values * (1 + _RELATIVE_ROUND_OFF))
    values.flags.writeable = False
    return values


def moment_round_off(orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound the round-off of a sampled divergence.

    Near order 1 the round-off of its moment is divided by very little.
    """
    return np.asarray(_ROUND_OFF + _MOMENT_ROUND_OFF / (orders - 1))


def laplace_divergences(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of an epsilon-DP Laplace release (Mironov 2017, proposition 6).

    For a small epsilon the two terms nearly cancel, and leave a round-off in proportion to it; more
    than that is added.
    """
    ratio = (orders - 1) * np.expm1((1 - 2 * orders) * epsilon) / (2 * orders - 1)
    below = np.log1p(ratio) / (orders - 1)
    return np.asarray(epsilon * (1 + 1e-15) + below)


def sampled_divergences(z: float, rate: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of the Poisson-sampled Gaussian, removing a record.

    Removing a record dominates adding one. Whole orders have a finite sum (Mironov, Talwar and
    Zhang 2019, section 3.3); others below 64 are integrated by the trapezoid rule, whose error on
    this analytic and fast-falling integrand is below float64's.
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
    """Integrate N(0, z^2)(x) (1 - q + q e^((2x - 1) / 2z^2))^a.

    The range holds the mass at every order a.
    """
    # The integrand is analytic within pi z^2 of the real line (beyond lie its branch points) and
    # falls like a Gaussian of width z; this step makes the rule's error, exp(-2 pi distance /
    # step), smaller than round-off on both counts.
    step = min(z / 8, z**2 / 2)
    low = -12 * z
    high = float(orders.max()) + 12 * z
    if (high - low) / step > _LONGEST_QUADRATURE:
        return np.full(len(orders), np.inf)
    x = np.arange(low, high + step, step)
    log_ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x - 1) / (2 * z**2))
    log_weights = -((x / z) ** 2) / 2
    logs = orders[:, None] * log_ratio[None, :] + log_weights[None, :]
    # Divided by the same rule's sum of the density alone, which is 1: the error of its weights
    # cancels out.
    return np.asarray((log_sum(logs) - log_sum(log_weights)) / (orders - 1))


def log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of a sum over the last axis, from the logarithms of its terms."""
    largest = logs.max(axis=-1)
    return np.asarray(largest + np.log(np.exp(logs - largest[..., None]).sum(axis=-1)))


def subset_divergences(event: DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergence of a uniform subset of fixed size, at half the noise.

    See Wang, Balle and Kasiviswanathan (2019).
    """
    import attr
    import dp_accounting
    from dp_accounting import rdp

    halved = attr.evolve(
        event, event=attr.evolve(event.event, noise_multiplier=event.event.noise_multiplier / 2)
    )
    accountant = rdp.RdpAccountant(list(orders), dp_accounting.NeighboringRelation.REPLACE_ONE)
    return np.maximum(np.asarray(accountant.compose(halved).rdp, dtype=np.float64), 0.0)
