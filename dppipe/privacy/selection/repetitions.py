"""How often a private search repeats its run: the number K, which is drawn in secret.

Two families are known (Papernot and Steinke 2022): the truncated negative binomial distribution of
a shape h >= 0 (logarithmic for 0, geometric for 1) and the Poisson distribution. All numbers are
those of the very `gamma` that is used, which is found from the stated mean by bisection.
Read next: `costs.py`, which bounds what the best of K runs costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 200
_UPWARD = 1 + 2.0**-48
"""32 units of round-off, where fewer than ten are needed."""


@dataclass(frozen=True)
class Repetitions:
    """The distribution of the number of runs.

    Guarantee: `expected` and `log_inverse_gamma` are never below those of the distribution with
    this `gamma` (`PROOF.md`, lemma 5).

    Example:
        >>> from dppipe.privacy.selection.repetitions import Repetitions
        >>> runs = Repetitions(mean=10.0, shape=1.0)
        >>> round(runs.gamma, 6), runs.quantile(0.5), runs.quantile(0.99)
        (0.1, 7, 44)
    """

    mean: float
    """The mean that was asked for, at least 1."""
    shape: float
    """h; infinite for the Poisson distribution."""

    def __post_init__(self) -> None:
        if not 1 <= self.mean < math.inf or not self.shape >= 0:
            raise PrivacyRefusal(
                "repetitions: expected a mean >= 1 and a shape >= 0, got "
                f"{self.mean} and {self.shape}."
            )

    @property
    def is_poisson(self) -> bool:
        """Whether K may be 0, which leaves no model."""
        return self.shape == math.inf

    @cached_property
    def gamma(self) -> float:
        """The parameter of the truncated negative binomial distribution; 1 where K is always 1."""
        if self.is_poisson or self.mean == 1:
            return 1.0
        return math.exp(-_log_inverse(self.mean, self.shape))

    @property
    def log_inverse_gamma(self) -> float:
        """ln(1/gamma), rounded up."""
        return -_log(self.gamma) * _UPWARD

    @property
    def expected(self) -> float:
        """E[K] of this very gamma, rounded up."""
        if self.is_poisson or self.gamma == 1:
            return self.mean
        return mean_of(self.gamma, self.shape) * _UPWARD

    def probabilities(self, most: int) -> NDArray[np.float64]:  # -> [most + 1]
        """Return the probability of each number of runs from 0 to `most`."""
        from scipy import special, stats

        counts = np.arange(most + 1)
        if self.is_poisson:
            return np.asarray(stats.poisson.pmf(counts, self.mean))
        found = np.zeros(most + 1)
        if self.gamma == 1:
            found[1:2] = 1.0
            return found
        times = counts[1:]
        logs = times * math.log1p(-self.gamma)
        if self.shape == 0:
            found[1:] = np.exp(logs - np.log(times) - math.log(-_log(self.gamma)))
            return found
        ways = special.gammaln(times + self.shape) - special.gammaln(self.shape)
        ways -= special.gammaln(times + 1)
        whole = math.log(math.expm1(-self.shape * _log(self.gamma)))
        found[1:] = np.exp(logs + ways - whole)
        return found

    def quantile(self, share: float) -> int:
        """Return the least number that K doesn't exceed with this probability."""
        from scipy import stats

        if self.is_poisson:
            return int(stats.poisson.ppf(share, self.mean))
        if self.gamma == 1:
            return 1
        if self.shape == 0:
            return int(stats.logser.ppf(share, 1 - self.gamma))
        none = self.gamma**self.shape  # what truncation takes away
        return int(stats.nbinom.ppf(none + share * (1 - none), self.shape, self.gamma))

    def log_growth(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ln(phi'(y) / phi'(x)) for the generating function phi, rounded up; y >= x.

        For the Poisson distribution it is E[K] (y - x); else it is (1+h) times the logarithm of
        (1 - (1-g) x) / (1 - (1-g) y), and infinite where that has no value.
        """
        if self.is_poisson:
            return np.asarray(self.mean * (y - x + 2.0**-50) * _UPWARD)
        above = (1 - x) + self.gamma * x
        below = (1 - y) + self.gamma * y
        with np.errstate(divide="ignore", invalid="ignore"):
            fraction = np.where(below > 0, above / below, np.inf) * _UPWARD
            return np.asarray((1 + self.shape) * np.log(fraction) * _UPWARD)


def mean_of(gamma: float, shape: float) -> float:
    """Return E[K] of the truncated negative binomial distribution."""
    log_inverse = -_log(gamma)
    if shape == 0:
        return (1 - gamma) / gamma / log_inverse
    return shape * (1 - gamma) / (gamma * -math.expm1(-shape * log_inverse))


def _log(gamma: float) -> float:
    """Return the logarithm, with its digits also near 1, where 1 - gamma is exact."""
    return math.log1p(-(1 - gamma)) if gamma > 0.5 else math.log(gamma)


def _log_inverse(mean: float, shape: float) -> float:
    """Find ln(1/gamma) of the distribution with this mean; the mean grows with it."""
    low = 0.0
    high = 1.0
    while mean_of(math.exp(-high), shape) < mean:
        high *= 2
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        gamma = math.exp(-middle)
        if gamma == 1 or mean_of(gamma, shape) < mean:
            low = middle
        else:
            high = middle
    return high
