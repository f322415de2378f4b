"""Privacy profiles of a mixture of Gaussians: P is the sum of w_i N(s_i, sigma^2), Q is N(0, sigma^2).

So are charged users of whom several records may be sampled. dp_accounting looks for the outcome at which P's density is
e^epsilon times Q's by halving, to 1e-6; a delta that is read off next to that outcome lies below the true one. Here it is
bounded from above instead, as in `sampling_profiles.py`, which holds the other profiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dppipe.privacy.gaussian import gaussian_delta
from dppipe.privacy.pld.fft import UNIT
from dppipe.privacy.pld.sampling_profiles import REACH, TAIL, Direction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.privacy.pld.sampling_profiles import Profile

_ROUNDS = 12
"""Of Newton's method: where they are too few, the bound is a bound but not the closest."""
_TOGETHER = 1 << 14
"""Epsilons that are worked on at once, to keep arrays small."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """The parts of a mixture that move the mean, against noise of standard deviation 1.

    Guarantee: `removed` and `added` are never below the exact delta, round-off included. With a = e^epsilon and w_0 the weight
    of s = 0, P - a Q is the sum of all w_i (N_i - c_i N_0) for any c_i with sum w_i c_i = a - w_0, and Q - a P that of all
    a w_i (c_i N_0 - N_i) for any c_i with sum w_i c_i = 1/a - w_0. The positive part of a sum is at most the sum of positive
    parts: so delta is at most that of single Gaussians, added up. It is equal where all parts change sign at one outcome y,
    so that log c_i = mu_i (y - mu_i / 2). Whichever y was found, c_i are scaled to have their sum; to a little less for the
    first and a little more for the second, by more than what is rounded.
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
        """Give delta of P from Q."""
        grown = np.expm1(np.minimum(epsilon, 700.0))
        room = grown + self.rate - self._units(np.abs(grown) + self.rate)
        ratios = self._ratios(np.log(np.maximum(room, np.finfo(np.float64).tiny)), up=False)
        found = self.weights @ gaussian_delta(ratios, 1 / self.moves[:, None])
        everything = np.maximum(self.rate, -np.expm1(np.minimum(epsilon, 0.0)))
        return np.where(room > 0, found, everything) * (1 + self._units(np.ones(1)))

    def added(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give delta of Q from P."""
        grown = epsilon + self.log_rest
        left = -np.expm1(np.minimum(grown, 0.0))  # 1 - a w_0
        left += self._units(
            left + np.exp(np.minimum(grown, 0.0)) * (1 + np.abs(epsilon) - self.log_rest)
        )
        ratios = self._ratios(np.log(left) - epsilon, up=True)
        raised = 1 + self._units(1 + np.abs(epsilon) + np.abs(ratios))
        found = self.weights @ (
            np.exp(epsilon + ratios) * gaussian_delta(-ratios, 1 / self.moves[:, None]) * raised
        )
        return np.asarray(found)

    def losses(self, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the logarithm of P's density over Q's."""
        return np.asarray(np.log(np.exp(self.log_rest) + np.exp(self._terms(outcomes)).sum(axis=0)))

    def _units(self, size: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give what sums over the parts, and a few operations more, may be off by."""
        return (8 + len(self.weights)) * UNIT * size

    def _terms(self, outcomes: NDArray[np.float64]) -> NDArray[np.float64]:  # -> [parts, outcomes]
        return np.log(self.weights)[:, None] + self.moves[:, None] * (
            outcomes - self.moves[:, None] / 2
        )

    def _ratios(
        self, wanted: NDArray[np.float64], *, up: bool
    ) -> NDArray[np.float64]:  # -> [parts, epsilons]
        """Give all log c_i, where the logarithm of sum w_i c_i is next to what is wanted: at least that or, not up, at most."""
        logs, moves = np.log(self.weights)[:, None], self.moves[:, None]
        # One part alone fills the room here, so that all are too many; from there on Newton's steps all go down.
        outcomes = ((wanted - logs) / moves + moves / 2).min(axis=0)
        for _ in range(_ROUNDS):
            total, shares = _added_up(self._terms(outcomes))
            outcomes = outcomes - (total - wanted) / (self.moves @ shares)
        terms = self._terms(np.clip(outcomes, -2 * REACH, 2 * REACH + self.moves.max()))
        total, _ = _added_up(terms)
        off = self._units(8 + np.abs(wanted) + (np.abs(logs) + np.abs(terms)).max(axis=0) * 4)
        return terms - logs + (wanted - total + (off if up else -off))


def _added_up(terms: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give the logarithm of a sum of exponentials, and the share of each."""
    peak = terms.max(axis=0)
    parts = np.exp(terms - peak)
    total = parts.sum(axis=0)
    return peak + np.log(total), parts / total


def mixture_profiles(
    noise: float, sensitivities: Sequence[float], weights: Sequence[float]
) -> tuple[Direction, Direction]:
    """Give both directions' profiles, removing first."""
    moves, shares = (
        np.asarray(sensitivities, dtype=np.float64) / noise,
        np.asarray(weights, dtype=np.float64),
    )
    if (
        moves.shape != shares.shape
        or not (moves > 0).any()
        or not (shares > 0).all()
        or abs(shares.sum() - 1) > 1e-9
    ):
        raise ValueError(
            "sensitivities, one of them above 0, and as many probabilities above 0 that make up 1 are needed"
        )
    shares = shares / shares.sum()
    mixture = Mixture(
        shares[moves > 0],
        moves[moves > 0],
        math.log(shares[moves == 0].sum()) if (moves == 0).any() else -1000.0,
    )
    far = mixture.moves - special.ndtri(np.minimum(TAIL / mixture.weights, 0.5))
    least, middle, most = mixture.losses(np.array([-REACH, REACH, far.max()]))
    removed, added = _in_parts(mixture.removed), _in_parts(mixture.added)
    return Direction(removed, float(least), float(most)), Direction(
        added, float(-middle), float(-least)
    )


def _in_parts(profile: Profile) -> Profile:
    def whole(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate(
            [profile(epsilon[at : at + _TOGETHER]) for at in range(0, len(epsilon), _TOGETHER)]
        )

    return whole
