"""Randomised response over k buckets, by the chance that an answer is true (Warner 1965).

With probability p an answer is the true bucket, and otherwise one of the k - 1 others at random.
The event of the same mechanism (`events/randomized_response.py`) has another number: the share of
answers that are drawn at random from all k, which may hit the truth: k (1 - p) / (k - 1).

Numbers are taken as they are written in decimals, and computed with 50 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

from dppipe.privacy.budget import Relation
from dppipe.privacy.rounding import decimal_down, decimal_up, exact

LARGEST_EPSILON = 25.0
"""Beyond it a float64 couldn't tell the chance of the truth from 1 precisely enough."""
_DIGITS = Context(prec=50)
_ENOUGH = Decimal("0.9999")
"""The share of epsilon that a rounded chance of the truth has to use up."""


@dataclass(frozen=True)
class RandomizedAnswers:
    """Answers of which each is true with probability `truth`, out of so many buckets.

    Guarantee: each answer alone is private with delta 0. Under `replace_one` its bucket becomes
    another one; under `zero_out` a record that isn't there answers with a bucket at random.
    """

    truth: float
    buckets: int

    @property
    def noise_parameter(self) -> float:
        """Return the share of answers that are drawn at random from all buckets, rounded down."""
        with localcontext(_DIGITS):
            share = self.buckets * (1 - exact(self.truth)) / (self.buckets - 1)
        return decimal_down(share, 15)

    def epsilon(self, relation: Relation = "replace_one", *, digits: int = 15) -> float:
        """Return the largest privacy loss, rounded up.

        It is ln(p (k-1) / (1-p)) under `replace_one`; under `zero_out`, where neighbours answer
        uniformly, the larger of ln(k p) and ln((k-1) / (k (1-p))).
        """
        return decimal_up(self._loss(relation), digits)

    def spread(self, answers: int = 1, *, digits: int = 6) -> float:
        """Bound the standard deviation of an estimated share of a bucket, rounded up.

        The estimate is (share of answers - q) / (p - q) with q = (1-p)/(k-1), which has no bias.
        Given the records it has the variance (f p (1-p) + (1-f) q (1-q)) / (n (p-q)^2), where f is
        the true share: at most that of the worse f, 0 or 1.
        """
        with localcontext(_DIGITS):
            truth = exact(self.truth)
            lie = (1 - truth) / (self.buckets - 1)
            worst = max(truth * (1 - truth), lie * (1 - lie))
            spread = (worst / answers).sqrt() / (truth - lie)
        return decimal_up(spread, digits)

    def _loss(self, relation: Relation) -> Decimal:
        with localcontext(_DIGITS):
            truth = exact(self.truth)
            others = Decimal(self.buckets - 1)
            if relation == "replace_one":
                return (truth * others / (1 - truth)).ln()
            told = (self.buckets * truth).ln()
            ruled_out = (others / (self.buckets * (1 - truth))).ln()
            return max(told, ruled_out)


def answers_within(
    epsilon: float, *, buckets: int, relation: Relation = "replace_one"
) -> RandomizedAnswers:
    """Return answers that are as often true as epsilon allows, rounded down to few digits.

    Guarantee: their own epsilon is at most the given one.
    """
    with localcontext(_DIGITS):
        odds = exact(epsilon).exp()
        most = odds / (odds + buckets - 1)
        if relation == "zero_out":
            most = min(odds / buckets, 1 - (buckets - 1) / (buckets * odds))
        for digits in range(4, 16):  # a float64 keeps 15 digits as they are
            truth = decimal_down(most, digits)
            if truth * buckets > 1:
                found = RandomizedAnswers(truth, buckets)
                if found._loss(relation) >= _ENOUGH * exact(epsilon):
                    return found
    raise ValueError(f"epsilon: expected a number that answers can be rounded for, got {epsilon}")
