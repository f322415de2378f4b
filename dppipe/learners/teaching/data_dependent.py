"""What Gaussian votes cost given these very votes: an epsilon that isn't private itself.

Where teachers agree, noise hardly ever changes the winner, and such a query costs much less than it
is charged (Papernot et al. 2018, theorem 6). How much less depends on the votes, so publishing the
number would be a release that nobody has paid for. It is computed on request, for `nonprivate/`
alone. No charge and no claim follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfcx, logsumexp

from dppipe.privacy.rdp.curve import RenyiCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS = (*(1 + x / 10 for x in range(1, 100)), *map(float, range(11, 65)), 128.0, 256.0, 512.0)


def epsilon_of_votes(
    counts: NDArray[np.float64], *, noise_scale: float, rho: float, delta: float
) -> float:  # counts: [n, classes]
    """Return the epsilon of a release of winners, given the counts; it isn't private.

    Args:
        counts: The votes of each query, without noise.
        noise_scale: The standard deviation of the noise on each count.
        rho: What was released beside it: Gaussian releases of rho alpha at order alpha.
        delta: The delta of the budget.
    """
    logs = log_flip_bounds(counts, noise_scale=noise_scale)
    divergences = [
        rho * order + float(query_divergences(logs, noise_scale=noise_scale, order=order).sum())
        for order in ORDERS
    ]
    return RenyiCurve(ORDERS, np.array(divergences)).epsilon(delta)


def log_flip_bounds(
    counts: NDArray[np.float64], *, noise_scale: float
) -> NDArray[np.float64]:  # [n, classes] -> [n]
    """Return the logarithm of a bound on the probability that another class wins.

    Two counts' noises differ by a normal value of variance 2 sigma^2, so a class that is behind by
    g wins over the first with the probability erfc(g / 2 sigma) / 2; the bound adds these up.
    """
    ordered = -np.sort(-counts, axis=1)
    behind = (ordered[:, :1] - ordered[:, 1:]) / (2 * noise_scale)
    # erfc(x) = erfcx(x) exp(-x^2), which doesn't vanish for large x.
    logs = np.log(erfcx(behind)) - behind**2 - np.log(2)
    return np.asarray(logsumexp(logs, axis=1))


def query_divergences(
    logs: NDArray[np.float64], *, noise_scale: float, order: float
) -> NDArray[np.float64]:  # [n] -> [n]
    """Return the Renyi divergence of each query at an order (Papernot et al. 2018, theorem 6).

    Where the theorem's conditions don't hold, it is what a query costs whatever the votes are.
    """
    usual = order / noise_scale**2
    found = np.full(len(logs), usual)
    for place, log_q in enumerate(logs):
        if log_q < 0:
            found[place] = min(usual, _divergence(float(log_q), noise_scale, order))
    return found


def _divergence(log_q: float, sigma: float, order: float) -> float:
    """Return the divergence by theorem 6 with the orders of proposition 10; infinite where none."""
    high = sigma * np.sqrt(-log_q)  # mu_2
    higher = high + 1  # mu_1
    at_high = high / sigma**2
    at_higher = higher / sigma**2
    if high <= 1 or higher <= order or -log_q <= at_high:
        return float("inf")
    room = (high - 1) * at_high
    room -= high * np.log(higher / (higher - 1) * high / (high - 1))
    if log_q > room:
        return float("inf")
    log_stays = np.log1p(-np.exp(log_q))
    log_a = log_stays - np.log1p(-np.exp((log_q + at_high) * (high - 1) / high))
    log_b = at_higher - log_q / (higher - 1)
    terms = [log_stays + (order - 1) * log_a, log_q + (order - 1) * log_b]
    return float(logsumexp(terms) / (order - 1))
