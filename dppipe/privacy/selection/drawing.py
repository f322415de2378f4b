"""The secret draws of a search: how many runs it makes, and which candidate each of them is.

Both follow from secret bits that the caller draws; nothing here has randomness of its own. Sixty
digits and 128 bits a draw make what is drawn differ from what is charged by next to nothing
(`PROOF.md`, lemma 7). There is no cap on the number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

from dppipe.errors import PrivacyRefusal

if TYPE_CHECKING:
    from dppipe.privacy.selection.repetitions import Repetitions

BITS = 128
_DIGITS = 60


def draw_order(
    repetitions: Repetitions, weights: Sequence[float], *, secret_bits: Callable[[int], int]
) -> tuple[int, ...]:
    """Return the candidate of each run, from 0: as many as the number of runs that is drawn.

    Args:
        repetitions: How the number of runs is distributed.
        weights: How likely each candidate is; they needn't add up to 1.
        secret_bits: Returns a uniform integer of so many bits, from a secret stream.
    """
    runs = number_of_runs(repetitions, secret_bits(BITS))
    return tuple(pick(weights, secret_bits(BITS)) for _ in range(runs))


def number_of_runs(repetitions: Repetitions, bits: int) -> int:
    """Return the number of runs that belongs to 128 uniform bits, by the distribution function."""
    _check(bits)
    with localcontext() as context:
        context.prec = _DIGITS
        asked = (Decimal(bits) + Decimal("0.5")) / Decimal(2**BITS)
        count, chance = _first(repetitions)
        reached = chance
        while reached <= asked:
            following = chance * _ratio(repetitions, count)
            if reached + following == reached:
                break  # all digits of the sum are there: what is left is below them
            count += 1
            chance = following
            reached += following
        return count


def pick(weights: Sequence[float], bits: int) -> int:
    """Return the place in `weights` that belongs to 128 uniform bits, in exact arithmetic."""
    _check(bits)
    exact = [Fraction(weight) for weight in weights]
    whole = sum(exact)
    if not exact or min(exact) < 0 or whole == 0:
        raise PrivacyRefusal("weights: expected numbers >= 0, not all 0, got none of that kind.")
    asked = Fraction(2 * bits + 1, 2 ** (BITS + 1)) * whole
    reached = Fraction(0)
    for place, weight in enumerate(exact):
        reached += weight
        if asked < reached:
            return place
    raise PrivacyRefusal("weights: expected a place for every draw, got none.")


def _first(repetitions: Repetitions) -> tuple[int, Decimal]:
    """Return the least number of runs, and its probability."""
    if repetitions.is_poisson:
        return 0, (-Decimal(repetitions.mean)).exp()
    gamma = Decimal(repetitions.gamma)
    if gamma == 1:
        return 1, Decimal(1)
    if repetitions.shape == 0:
        return 1, (1 - gamma) / -gamma.ln()
    shape = Decimal(repetitions.shape)
    return 1, (1 - gamma) * shape / ((-shape * gamma.ln()).exp() - 1)


def _ratio(repetitions: Repetitions, count: int) -> Decimal:
    """Return the probability of one run more over that of `count`."""
    if repetitions.is_poisson:
        return Decimal(repetitions.mean) / (count + 1)
    rest = 1 - Decimal(repetitions.gamma)
    return rest * (count + Decimal(repetitions.shape)) / (count + 1)


def _check(bits: int) -> None:
    if not 0 <= bits < 2**BITS:
        raise PrivacyRefusal(f"bits: expected {BITS} of them, got another number.")
