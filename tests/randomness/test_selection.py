"""Private selection: probabilities from closed forms, ties, shifts, huge scores, and refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy
import pytest
from randomness.chosen_words import ChosenWords
from scipy import stats

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.exponential import ExponentialStream
from dppipe.randomness.gumbel import GumbelStream
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.selection import noise_scale, select
from dppipe.randomness.streams import stream_key

STREAMS = [GumbelStream, ExponentialStream]
Stream = type[GumbelStream] | type[ExponentialStream]
COUNT = 30_000


def frequencies(
    scores: list[float],
    kind: Stream,
    *,
    sensitivity: float = 1.0,
    epsilon: float = 1.0,
    count: int = COUNT,
) -> list[int]:
    """Return how often each candidate is chosen."""
    stream = kind(stream_key("selection"))
    chosen = [
        select(scores, sensitivity=sensitivity, epsilon=epsilon, stream=stream)
        for _ in range(count)
    ]
    return numpy.bincount(chosen, minlength=len(scores)).tolist()


def agrees(seen: list[int], probabilities: list[float]) -> bool:
    """Return whether counts agree with probabilities: chi-squared, false alarms 1e-6."""
    expected = numpy.array(probabilities) / sum(probabilities) * sum(seen)
    return bool(stats.chisquare(seen, expected).pvalue > 1e-6)


EXPONENTIAL = [0.186324, 0.307196, 0.506480]
PERMUTE_AND_FLIP = [0.146751, 0.266077, 0.587172]


@pytest.mark.parametrize(
    ("kind", "probabilities"), [(GumbelStream, EXPONENTIAL), (ExponentialStream, PERMUTE_AND_FLIP)]
)
def test_candidates_are_chosen_with_the_probabilities_of_the_closed_form(
    kind: Stream, probabilities: list[float]
) -> None:
    """Scores 0, 1, 2 at epsilon 1. Chi-squared over 30,000 choices. False alarms: 1e-6 each."""
    assert agrees(frequencies([0.0, 1.0, 2.0], kind), probabilities)


def test_the_two_mechanisms_are_told_apart() -> None:
    """The test above has power. It misses once in far more than 1e9 times."""
    assert not agrees(frequencies([0.0, 1.0, 2.0], GumbelStream), PERMUTE_AND_FLIP)
    assert not agrees(frequencies([0.0, 1.0, 2.0], ExponentialStream), EXPONENTIAL)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(0.5, 0.5), (2.0, 3.0), (1e-200, 1.0)])
def test_probabilities_depend_on_epsilon_over_twice_the_sensitivity(
    sensitivity: float, epsilon: float
) -> None:
    """The exponential mechanism. Chi-squared over 30,000 choices. False alarms: 1e-6 each."""
    scores = [0.0, 1.5 * sensitivity, -0.7 * sensitivity, 0.2 * sensitivity]
    weights = [math.exp(epsilon * score / (2 * sensitivity)) for score in scores]
    seen = frequencies(scores, GumbelStream, sensitivity=sensitivity, epsilon=epsilon)
    assert agrees(seen, weights)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("score", [0.0, -3.5, 1.7e308])
def test_equal_scores_are_chosen_equally_often(kind: Stream, score: float) -> None:
    """Chi-squared over 30,000 choices among 5. False alarms: 1e-6 each."""
    assert agrees(frequencies([score] * 5, kind), [1.0] * 5)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("shift", [1.0, -(2.0**40), 2.0**50])
def test_adding_a_number_to_all_scores_changes_no_choice(kind: Stream, shift: float) -> None:
    """With shifts that float64 adds exactly, the same noise leads to the same choices."""
    key = stream_key("selection")
    scores = numpy.array([0.0, 1.0, 2.0, 1.0])
    plain, shifted = kind(key), kind(key)
    for _ in range(200):
        first = select(scores, sensitivity=1.0, epsilon=1.0, stream=plain)
        second = select(scores + shift, sensitivity=1.0, epsilon=1.0, stream=shifted)
        assert first == second


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("scores", [[-1.7e308, 1.7e308, 0.0], [1e-300, 1e300, -1e300]])
def test_the_best_of_huge_scores_is_chosen_without_overflow(
    kind: Stream, scores: list[float]
) -> None:
    """The others have a probability below exp(-1e299). Warnings are errors here."""
    assert frequencies(scores, kind, count=50) == [0, 50, 0]
    tiny = frequencies(scores, kind, sensitivity=1e-290, epsilon=100.0, count=50)
    assert tiny == [0, 50, 0]


@pytest.mark.parametrize("kind", STREAMS)
def test_a_single_candidate_is_always_chosen(kind: Stream) -> None:
    assert frequencies([-7.0], kind, count=5) == [5]


@pytest.mark.parametrize("kind", STREAMS)
def test_each_candidate_gets_noise_of_its_own(kind: Stream) -> None:
    """A word of zeros or ones outweighs a score that lies 40 scales above the others'."""
    far = numpy.uint64(2**64 - 1 if kind is GumbelStream else 0)
    middle = numpy.uint64(2**63)
    for place in range(4):
        words = numpy.full(4, middle)
        words[place] = far
        stream = kind(stream_key("selection"))
        stream._keystream = ChosenWords(words)  # type: ignore[assignment]
        scores = numpy.full(4, 80.0)
        scores[place] = 0.0
        assert select(scores, sensitivity=1.0, epsilon=1.0, stream=stream) == place


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_refused(kind: Stream, bad: float) -> None:
    with pytest.raises(PrivacyRefusal, match="finite scores") as refusal:
        select([1.25, bad], sensitivity=1.0, epsilon=1.0, stream=kind(bytes(32)))
    assert "1.25" not in str(refusal.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 2.0**-31])
def test_an_epsilon_without_meaning_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        select([1.0, 2.0], sensitivity=1.0, epsilon=epsilon, stream=GumbelStream(bytes(32)))


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, 1e-305, 1e305])
def test_a_sensitivity_without_meaning_is_refused(sensitivity: float) -> None:
    with pytest.raises(ValueError, match="sensitivity"):
        select([1.0, 2.0], sensitivity=sensitivity, epsilon=1.0, stream=GumbelStream(bytes(32)))


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], 3.0])
def test_what_is_no_list_of_scores_is_refused(scores: object) -> None:
    with pytest.raises(ValueError, match="one score or more"):
        select(scores, sensitivity=1.0, epsilon=1.0, stream=GumbelStream(bytes(32)))  # type: ignore[arg-type]


def test_noise_without_a_proof_is_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="got Keystream"):
        select([1.0], sensitivity=1.0, epsilon=1.0, stream=Keystream(bytes(32)))  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [2.0**-30, 1e-6, 0.1, 1.0, 2.0 + 2.0**-40, 10.0, 1e5, 1e17])
@pytest.mark.parametrize("sensitivity", [1e-250, 0.1, 1.0, 1 / 3, 12345.678])
def test_rounding_is_paid_for_in_exact_arithmetic(sensitivity: float, epsilon: float) -> None:
    scale = Fraction(noise_scale(sensitivity, epsilon=epsilon))
    kept_back = Fraction(2) ** -40
    assert scale * (Fraction(epsilon) - kept_back) >= 2 * Fraction(sensitivity)
    assert scale * Fraction(epsilon) <= 2 * Fraction(sensitivity) * (1 + Fraction(1, 900))
    half = Fraction(noise_scale(sensitivity, epsilon=epsilon, monotone=True))
    assert half * (Fraction(epsilon) - kept_back) >= Fraction(sensitivity)
    assert half * Fraction(epsilon) <= Fraction(sensitivity) * (1 + Fraction(1, 900))
