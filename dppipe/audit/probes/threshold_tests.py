"""The test of a claim at several thresholds at once, and how often it would find a fault.

With K thresholds that were fixed beforehand each gets error / K, of which each bound gets a half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.audit.counts import TwoWorlds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.counts import Claim

    Floats = NDArray[np.float64]

TRIALS = 200
"""How many audits are simulated for a probability of detection."""
_BISECTIONS = 60
_LEAST_LOG10 = -300.0


def count_worlds(without: Floats, with_: Floats, thresholds: Floats) -> list[TwoWorlds]:
    """Return how often the scores of both worlds exceed each threshold."""
    worlds = []
    for threshold in thresholds:
        worlds.append(
            TwoWorlds(
                hits_with=int((with_ > threshold).sum()),
                draws_with=len(with_),
                hits_without=int((without > threshold).sum()),
                draws_without=len(without),
            )
        )
    return worlds


def shown_counts(worlds: Sequence[TwoWorlds]) -> dict[str, list[int]]:
    """Return the counts of each threshold, as a file keeps them."""
    return {
        "hits_without": [world.hits_without for world in worlds],
        "hits_with": [world.hits_with for world in worlds],
    }


def p_value(worlds: Sequence[TwoWorlds], claim: Claim) -> float:
    """Return the smallest level at which some threshold contradicts the claim.

    Guarantee: if the claim holds, and thresholds were fixed before the draws, the probability of a
    value of at most p is at most p (Clopper and Pearson 1934, Bonferroni).
    """

    def rejects(exponent: float) -> bool:
        error = 10.0**exponent / len(worlds)
        return any(world.contradicts(claim, error=error) for world in worlds)

    if not rejects(0.0):
        return 1.0
    low = _LEAST_LOG10
    high = 0.0
    if rejects(low):
        return float(10.0**low)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if rejects(middle):
            high = middle
        else:
            low = middle
    return float(10.0**high)


def largest_epsilon(worlds: Sequence[TwoWorlds], *, delta: float, error: float) -> float:
    """Return the largest epsilon that some threshold bounds from below."""
    return max(world.epsilon(delta=delta, error=error / len(worlds)) for world in worlds)


def epsilon_ceiling(draws: int, *, thresholds: int, delta: float, error: float) -> float:
    """Return the epsilon of worlds that are told apart on every draw."""
    perfect = TwoWorlds(draws, draws, 0, draws)
    return perfect.epsilon(delta=delta, error=error / thresholds)


def detection_rate(
    without: Floats, with_: Floats, claim: Claim, *, draws: int, error: float, seed: int = 0
) -> float:
    """Return how often a faulty mechanism would be found, by simulated audits.

    Args:
        without: The probability that a score of the faulty mechanism falls between two thresholds
            in world 0: `[K + 1]`, the lowest first.
        with_: The same in world 1.
        claim: The blow-up that is tested.
        draws: Draws a world.
        error: The level of the test.
        seed: Of the simulation, which is public.
    """
    generator = np.random.default_rng(seed)
    above = []
    for cells in (without, with_):
        found = generator.multinomial(draws, cells / cells.sum(), size=TRIALS)
        above.append(found[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])
    return float(contradicted(above[1], above[0], claim, draws=draws, error=error).mean())


def contradicted(
    hits_with: NDArray[np.int64],
    hits_without: NDArray[np.int64],
    claim: Claim,
    *,
    draws: int,
    error: float,
) -> NDArray[np.bool_]:  # [trials, K] twice -> [trials]
    """Return whether each of many audits contradicts a claim, as `TwoWorlds.contradicts` does."""
    share = error / hits_with.shape[1] / 2
    true_rate = special.betaincinv(np.maximum(hits_with, 1), draws - hits_with + 1, share)
    true_rate = np.where(hits_with == 0, 0.0, true_rate)
    false_rate = special.betaincinv(
        hits_without + 1, np.maximum(draws - hits_without, 1), 1 - share
    )
    false_rate = np.where(hits_without == draws, 1.0, false_rate)
    forwards = true_rate > claim(false_rate)
    backwards = 1 - false_rate > claim(1 - true_rate)
    return np.asarray((forwards | backwards).any(axis=1))


def normal_cells(thresholds: Floats, *, mean: float, std: float) -> Floats:
    """Return the probability of a normal score between each two thresholds."""
    below = special.ndtr((thresholds - mean) / std)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def sample_cells(thresholds: Floats, scores: Floats) -> Floats:
    """Return the share of scores between each two thresholds."""
    places = np.searchsorted(thresholds, scores, side="left")
    return np.bincount(places, minlength=len(thresholds) + 1) / len(scores)


def draws_for(multiplier: float) -> int:
    """Return the draws a world that find Gaussian noise of half the size, nearly always."""
    return math.ceil(300 + 120 * multiplier**2)
