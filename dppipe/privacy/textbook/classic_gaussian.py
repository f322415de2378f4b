"""The classic calibration of Gaussian noise, beside the exact one.

The classic noise is sqrt(2 ln(1.25/delta)) / epsilon sensitivities (Dwork and Roth 2014, theorem
A.1). That is proven for epsilon below 1 only, and more than needed there. The exact noise is the
smallest that suffices, at any epsilon (Balle and Wang 2018; `dppipe.privacy.gaussian`). dppipe
calibrates with the exact one; the classic one is here to be compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dppipe.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_scale

PROVEN_BELOW = 1.0
"""The epsilon from which on the classic formula has no proof."""
_UPWARD = 1 + 2.0**-48
"""More than a root, a logarithm and a quotient are rounded by."""


@dataclass(frozen=True, kw_only=True)
class ClassicNoise:
    """The classic noise for (epsilon, delta), and what it truly does.

    All noise is a standard deviation in units of the sensitivity.

    Guarantee: `true_epsilon` and `true_delta` are upper bounds on what the classic noise costs, at
    `delta` and at `epsilon`; `exact` is enough noise for (epsilon, delta).
    """

    epsilon: float
    delta: float
    noise: float
    exact: float
    true_epsilon: float
    true_delta: float
    fails_from: float
    """The epsilon from which on the classic noise is too little at this delta."""

    @property
    def proven(self) -> bool:
        """Whether the classic formula has a proof at this epsilon."""
        return self.epsilon < PROVEN_BELOW

    @property
    def holds(self) -> bool:
        """Whether the classic noise keeps what it claims at this epsilon, proven or not."""
        return self.true_epsilon <= self.epsilon

    @property
    def waste(self) -> float:
        """Return which share of noise it adds in excess of the exact one; negative: it lacks."""
        return self.noise / self.exact - 1


def classic_scale(epsilon: float, delta: float) -> float:
    """Return the noise of the classic formula, rounded up."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon * _UPWARD


def classic_noise(epsilon: float, delta: float) -> ClassicNoise:
    """Compare the classic noise for (epsilon, delta) with the exact one."""
    noise = classic_scale(epsilon, delta)
    return ClassicNoise(
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        exact=gaussian_scale(epsilon, delta),
        true_epsilon=gaussian_epsilon(noise, delta),
        true_delta=float(gaussian_delta(epsilon, noise)),
        fails_from=failing_epsilon(delta),
    )


def failing_epsilon(delta: float) -> float:
    """Return the epsilon from which on the classic noise costs more than delta.

    There is one: with noise c/epsilon and a = epsilon/2c the true delta grows with epsilon. Its
    derivative is phi(a - c) (1/c - M(a + c)), where M is the Mills ratio of the normal
    distribution, and M(x) < 1/x.
    """
    low = 0.0
    high = PROVEN_BELOW
    while float(gaussian_delta(high, classic_scale(high, delta))) <= delta:
        low = high
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if float(gaussian_delta(middle, classic_scale(middle, delta))) <= delta:
            low = middle
        else:
            high = middle
    return low
