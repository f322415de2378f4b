"""Secret draws of a search: the distribution function inverted, in more digits than float64 has."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.selection.drawing import BITS, draw_order, number_of_runs, pick
from dppipe.privacy.selection.repetitions import Repetitions

MOST = 2**BITS - 1


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 2.5, math.inf])
def test_a_draw_inverts_the_distribution_function(shape: float) -> None:
    runs = Repetitions(mean=10.0, shape=shape)
    reached = np.cumsum(runs.probabilities(3000))
    generator = random.Random(4)
    for _ in range(300):
        bits = generator.getrandbits(BITS)
        share = bits / 2**BITS
        expected = int(np.searchsorted(reached, share, side="right"))
        near = float(np.min(np.abs(reached - share))) < 1e-12
        assert near or number_of_runs(runs, bits) == expected


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_the_number_of_runs_is_not_capped(shape: float) -> None:
    """Even the last of 2^128 draws has its own number: about 89/gamma for the geometric one."""
    runs = Repetitions(mean=10.0, shape=shape)
    last = number_of_runs(runs, MOST)
    geometric = (BITS + 1) * math.log(2) / -math.log1p(-runs.gamma)
    assert last > runs.quantile(1 - 1e-12)
    if shape == 1:
        assert last == math.ceil(geometric)


def test_first_draws() -> None:
    assert number_of_runs(Repetitions(mean=10.0, shape=0.0), 0) == 1
    assert number_of_runs(Repetitions(mean=10.0, shape=math.inf), 0) == 0
    assert number_of_runs(Repetitions(mean=1.0, shape=0.0), MOST) == 1


def test_candidates_are_picked_by_their_weights() -> None:
    weights = [0.25, 0.0, 0.5, 0.25]
    quarter = 2**BITS // 4
    assert [pick(weights, n * quarter) for n in range(4)] == [0, 2, 2, 3]
    assert pick(weights, quarter - 1) == 0
    assert pick(weights, MOST) == 3
    with pytest.raises(PrivacyRefusal):
        pick([0.0], 5)


def test_an_order_has_a_candidate_for_each_run() -> None:
    generator = random.Random(2)
    runs = Repetitions(mean=10.0, shape=1.0)
    drawn = [draw_order(runs, [1, 1, 2], secret_bits=generator.getrandbits) for _ in range(2000)]
    # Seeded, so this never changes.
    assert np.mean([len(order) for order in drawn]) == pytest.approx(10, abs=0.7)
    picked = [candidate for order in drawn for candidate in order]
    assert picked.count(2) / len(picked) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("bits", [-1, 2**BITS])
def test_other_bits_are_refused(bits: int) -> None:
    with pytest.raises(PrivacyRefusal, match="bits"):
        number_of_runs(Repetitions(mean=3.0, shape=0.0), bits)
