"""One noise multiplier, divided between a gradient and statistics released beside it."""

from __future__ import annotations

import math

from dppipe.errors import PrivacyRefusal


def gradient_multiplier(
    noise_multiplier: float, *, statistics_std: float, statistics: int = 1
) -> float:
    """Return the gradient's noise multiplier where both releases together have the given one.

    Guarantee: a sum of statistics in [-1/2, 1/2] has sensitivity sqrt(K) / 2. Two Gaussian releases
    of one batch are one, whose inverse squared multipliers add up (Andrew et al. 2021, theorem 1):
    z^-2 = z_D^-2 + K (2 statistics_std)^-2 for z_D given.

    Args:
        noise_multiplier: z, what the step is charged with.
        statistics_std: The noise on the sum of each statistic.
        statistics: K, how many there are.
    """
    most = 2 * statistics_std / math.sqrt(statistics)
    if not noise_multiplier < most:
        raise PrivacyRefusal(
            "clipping.unclipped_num_std: expected more than "
            f"{noise_multiplier * math.sqrt(statistics) / 2:.6g}, got "
            f"{statistics_std:g}: at noise multiplier {noise_multiplier:g} the noise on the count "
            "would use up the step. "
            "Raise it, raise the expected batch size, or lower the noise multiplier (a larger "
            "budget, or fewer steps)."
        )
    return main_multiplier(noise_multiplier, beside=most)


def main_multiplier(noise_multiplier: float, *, beside: float) -> float:
    """Return the multiplier of a release beside which another one has the multiplier `beside`.

    Guarantee: both together have the given multiplier, as inverse squares add up.
    """
    if not 0 < noise_multiplier < beside:
        raise PrivacyRefusal(
            f"noise: expected more than {noise_multiplier:g} as the multiplier of what is released "
            f"beside, got {beside:g}. It would use up the whole release."
        )
    return 1 / math.sqrt(noise_multiplier**-2 - beside**-2)
