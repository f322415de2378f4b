"""Epoch-wise draws follow their laws: where a record falls, with whom, and that epochs know nothing of each other."""

from __future__ import annotations

import math

import numpy
import pytest
from numpy.typing import NDArray
from scipy import stats
from secret_streams import secret_stream

from dppipe.randomness.draws import permutation
from dppipe.sampling import BallsInBins, Sampler, Shuffle

RECORDS, EPOCHS = 60, 4000
SAMPLERS = [Shuffle(expected_batch_size=12), BallsInBins(expected_batch_size=12)]


@pytest.fixture(scope="module", params=SAMPLERS, ids=lambda sampler: sampler.kind)
def sampler(request: pytest.FixtureRequest) -> Sampler:
    made: Sampler = request.param
    return made


@pytest.fixture(scope="module")
def places(sampler: Sampler) -> NDArray[numpy.int64]:
    """The step of each record in each epoch: `[epochs, records]`."""
    source, rate = secret_stream("sampler"), sampler.rate(RECORDS)
    found = numpy.full((EPOCHS, RECORDS), -1)
    for epoch in range(EPOCHS):
        for step, batch in enumerate(sampler.draw_epoch(RECORDS, rate=rate, generator=source)):
            found[epoch, batch] = step
    return found


def test_every_record_has_one_place_in_every_epoch(places: NDArray[numpy.int64]) -> None:
    assert ((places >= 0) & (places < 5)).all()


def test_a_record_is_in_every_step_as_often(places: NDArray[numpy.int64]) -> None:
    """Binomial tails over 60 records and 5 steps: false alarms below 1e-7 together."""
    counts = numpy.stack([(places == step).sum(axis=0) for step in range(5)])
    likely = stats.binom(EPOCHS, 0.2)
    assert likely.cdf(counts.min()) > 1e-7 / counts.size / 2
    assert likely.sf(counts.max() - 1) > 1e-7 / counts.size / 2


def test_two_records_meet_as_often_as_their_law_says(
    sampler: Sampler, places: NDArray[numpy.int64]
) -> None:
    """1/5 for balls in bins; 11/59 for shuffled batches of 12, where one takes a place from the other. False alarms: 1e-8."""
    chance = 11 / 59 if sampler.kind == "shuffle" else 0.2
    met = (places[:, 0::2] == places[:, 1::2]).mean(axis=1)
    assert abs(met.mean() - chance) < 5.8 * met.std() / math.sqrt(EPOCHS)
    other = 0.2 if sampler.kind == "shuffle" else 11 / 59
    assert abs(met.mean() - other) > 5.8 * met.std() / math.sqrt(
        EPOCHS
    )  # the two laws can be told apart


def test_batches_have_the_sizes_of_their_law(
    sampler: Sampler, places: NDArray[numpy.int64]
) -> None:
    """Shuffled batches have one size; the others' is binomial, its variance within 6 standard errors (1e-8)."""
    sizes = numpy.stack([(places == step).sum(axis=1) for step in range(5)])
    if sampler.kind == "shuffle":
        assert (sizes == 12).all()
        return
    variance = RECORDS * 0.2 * 0.8
    found = numpy.square(sizes[0] - 12.0)
    assert abs(found.mean() - variance) < 6 * found.std() / math.sqrt(EPOCHS)


def test_an_epoch_says_nothing_about_the_next(places: NDArray[numpy.int64]) -> None:
    """Records keep their step from one epoch to the next with probability 1/5. False alarms: below 1e-8."""
    kept = (places[1:] == places[:-1]).mean(axis=1)
    assert abs(kept.mean() - 0.2) < 5.8 * kept.std() / math.sqrt(EPOCHS - 1)


def test_a_step_says_where_a_record_is_not() -> None:
    """Unlike in Poisson sampling: a record that was drawn isn't drawn again in its epoch. What is charged allows for it."""
    for made in SAMPLERS:
        batches = made.draw_epoch(
            RECORDS, rate=made.rate(RECORDS), generator=secret_stream("sampler")
        )
        assert not set(batches[0]) & set(batches[1])


@pytest.mark.parametrize(
    ("records", "size", "sizes"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 3, [3]), (1, 1, [1])]
)
def test_the_last_shuffled_batch_holds_what_is_left(
    records: int, size: int, sizes: list[int]
) -> None:
    made = Shuffle(expected_batch_size=size)
    batches = made.draw_epoch(records, rate=made.rate(records), generator=secret_stream("sampler"))
    assert [len(batch) for batch in batches] == sizes
    assert made.epoch_length(records) == len(sizes)
    assert made.expected(records) == size


@pytest.mark.parametrize(
    ("records", "size", "bins"),
    [(100, 30, 3), (100, 100, 1), (100, 90, 1), (7, 1, 7), (1000, 16, 62)],
)
def test_an_epoch_of_balls_has_a_whole_number_of_bins(records: int, size: float, bins: int) -> None:
    made = BallsInBins(expected_batch_size=size)
    assert made.epoch_length(records) == bins
    assert made.rate(records) == 1 / bins
    assert made.expected(records) == records / bins
    assert (
        len(made.draw_epoch(records, rate=made.rate(records), generator=secret_stream("sampler")))
        == bins
    )


def test_all_orders_of_four_are_equally_likely() -> None:
    """A chi-squared test over the 24 orders of 24,000 draws; a false alarm in a million."""
    source = secret_stream("sampler")
    drawn = numpy.stack([permutation(source, 4) for _ in range(24_000)])
    _, counts = numpy.unique(drawn @ numpy.array([64, 16, 4, 1]), return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-6


def test_equal_words_are_drawn_again() -> None:
    class Words:
        def __init__(self) -> None:
            self.rounds = [[5, 5, 1], [7, 2, 9]]

        def bytes(self, length: int, /) -> bytes:
            return numpy.array(self.rounds.pop(0), numpy.uint64).tobytes()

    assert permutation(Words(), 3).tolist() == [1, 0, 2]
