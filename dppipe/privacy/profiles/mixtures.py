"""Privacy profiles of a mixture of Gaussians: P = sum w_i N(s_i, sigma^2), Q = N(0, sigma^2).

Users of whom several records may be sampled are charged by it. dp_accounting searches for the
outcome at which P's density is e^epsilon times Q's by halving, to 1e-6; a delta that is read off
next to that outcome lies below the true one. Here delta is bounded from above instead
(`pld/PROOF.md`, lemma 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.profiles.sampling import REACH, TAIL, Direction
from dppipe.privacy.rounding import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.profiles.sampling import Profile

_ROUNDS = 12
"""Rounds of Newton's method: with too few the bound is still a bound, but not the closest."""
_TOGETHER = 1 << 14
"""Epsilons that are computed at once, to keep arrays small."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """The parts of a mixture that move the mean, against noise of standard deviation 1.

    Guarantee: `removed` and `added` are never below the exact delta, round-off included (lemma 6).
    """

    weights: NDArray[np.float64]
    moves: NDArray[np.float64]
    """Each s_i over sigma, above 0."""
    log_rest: float
    """The logarithm of w_0; -1000 where there is none."""

    @property
    def rate(self) -> float:
        """The weight of all parts."""
        return float(self.weights.sum())

    def removed(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the delta of P from Q, removing a record."""
        grown = np.expm1(np.minimum(epsilon, 700.0))
        room = grown + self.rate - self._units(np.abs(grown) + self.rate)
        ratios = self._ratios(np.log(np.maximum(room, np.finfo(np.float64).tiny)), up=False)
        found = self.weights @ gaussian_delta(ratios, 1 / self.moves[:, None])
        everything = np.maximum(self.rate, -np.expm1(np.minimum(epsilon, 0.0)))
        return np.where(room > 0, found, everything) * (1 + self._units(np.ones(1)))

    def added(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the delta of Q from P, adding a record."""
        grown = epsilon + self.log_rest
        left = -np.expm1(np.minimum(grown, 0.0))  # 1 - a w_0
        rest = np.exp(np.minimum(grown, 0.0))
        left += self._units(left + rest * (1 + np.abs(epsilon) - self.log_rest))
        ratios = self._ratios(np.log(left) - epsilon, up=True)
        raised = 1 + self._units(1 + np.abs(epsilon) + np.abs(ratios))
        single = gaussian_delta(-ratios, 1 / self.moves[:, None])
        return np.asarray(self.weights @ (np.exp(epsilon + ratios) * single * raised))

    def losses(self, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of P's density over Q's."""
        return np.asarray(np.log(np.exp(self.log_rest) + np.exp(self._terms(outcomes)).sum(axis=0)))

    def _units(self, size: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what sums over the parts, and a few operations more, may be off by."""
        return (8 + len(self.weights)) * UNIT * size

    def _terms(self, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:  # -> [parts, outcomes]
        return np.log(self.weights)[:, None] + self.moves[:, None] * (
            outcomes - self.moves[:, None] / 2
        )

    def _ratios(
        self, wanted: NDArray[np.float64], *, up: bool
    ) -> NDArray[np.float64]:  # -> [parts, epsilons]
        """Return all log c_i, with the logarithm of sum w_i c_i next to what is wanted.

        It is at least what is wanted if `up`, else at most that.
        """
        logs = np.log(self.weights)[:, None]
        moves = self.moves[:, None]
        # One part alone fills the room here, so all of them are too many; from there on Newton's
        # steps all go down.
        outcomes = ((wanted - logs) / moves + moves / 2).min(axis=0)
        for _ in range(_ROUNDS):
            total, shares = _added_up(self._terms(outcomes))
            outcomes = outcomes - (total - wanted) / (self.moves @ shares)
        terms = self._terms(np.clip(outcomes, -2 * REACH, 2 * REACH + self.moves.max()))
        total, _ = _added_up(terms)
        off = self._units(8 + np.abs(wanted) + (np.abs(logs) + np.abs(terms)).max(axis=0) * 4)
        return terms - logs + (wanted - total + (off if up else -off))


def _added_up(terms: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logarithm of a sum of exponentials, and the share of each."""
    peak = terms.max(axis=0)
    parts = np.exp(terms - peak)
    total = parts.sum(axis=0)
    return peak + np.log(total), parts / total


def mixture_profiles(
    noise: float, sensitivities: Sequence[float], weights: Sequence[float]
) -> tuple[Direction, Direction]:
    """Return the profiles of both directions, removing a record first."""
    moves = np.asarray(sensitivities, dtype=np.float64) / noise
    shares = np.asarray(weights, dtype=np.float64)
    if not _is_mixture(moves, shares):
        raise ValueError(
            "sensitivities, one of them above 0, and as many probabilities above 0 that make up 1 "
            "are needed"
        )
    shares = shares / shares.sum()
    moving = moves > 0
    rest = shares[moves == 0]
    log_rest = math.log(rest.sum()) if len(rest) else -1000.0
    mixture = Mixture(shares[moving], moves[moving], log_rest)
    far = mixture.moves - special.ndtri(np.minimum(TAIL / mixture.weights, 0.5))
    least, middle, most = mixture.losses(np.array([-REACH, REACH, far.max()]))
    removed = Direction(_in_parts(mixture.removed), float(least), float(most))
    added = Direction(_in_parts(mixture.added), float(-middle), float(-least))
    return removed, added


def _is_mixture(moves: NDArray[np.float64], shares: NDArray[np.float64]) -> bool:
    if moves.shape != shares.shape:
        return False
    return bool((moves > 0).any() and (shares > 0).all() and abs(shares.sum() - 1) <= 1e-9)


def _in_parts(profile: Profile) -> Profile:
    def whole(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for start in range(0, len(epsilon), _TOGETHER):
            parts.append(profile(epsilon[start : start + _TOGETHER]))
        return np.concatenate(parts)

    return whole
