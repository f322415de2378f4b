"""Epochs of few records: all batches are there, and each record is in one of them."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy
import pytest
from secret_streams import secret_stream

from dppipe.sampling.balls_in_bins import BallsInBins
from dppipe.sampling.base import Sampler
from dppipe.sampling.shuffle import Shuffle

SIZES = [1, 2, 3, 5]
SEEDS = 15


def epoch_wise(size: int) -> list[Sampler]:
    return [BallsInBins(expected_batch_size=size), Shuffle(expected_batch_size=size)]


def draw(sampler: Sampler, records: int) -> list[numpy.ndarray]:
    return sampler.draw_epoch(
        records,
        rate=sampler.rate(records),
        generator=secret_stream("sampler"),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["balls_in_bins", "shuffle"])
def test_every_epoch_has_all_its_batches_and_every_record_once(size: int, kind: str) -> None:
    (sampler,) = [made for made in epoch_wise(size) if made.kind == kind]
    for records in range(1, 25):
        for _ in range(SEEDS):
            batches = draw(sampler, records)
            assert len(batches) == sampler.epoch_length(records)
            assert sorted(numpy.concatenate(batches).tolist()) == list(range(records))


def test_an_epoch_of_any_length_has_as_many_batches() -> None:
    sampler = BallsInBins(expected_batch_size=1)
    for records in range(1, 400):  # the rate of 49 batches, taken back, is a little below 49
        assert len(draw(sampler, records)) == sampler.epoch_length(records) == records


def test_more_batches_than_records_are_all_there_and_most_are_empty() -> None:
    sampler = BallsInBins(expected_batch_size=0.05)
    for records in range(1, 8):
        for _ in range(SEEDS):
            batches = draw(sampler, records)
            assert len(batches) == sampler.epoch_length(records) == 20 * records
            assert Counter(numpy.concatenate(batches).tolist()) == Counter(range(records))
            assert sum(len(batch) == 0 for batch in batches) >= 19 * records


def test_wherever_records_fall_each_stands_in_the_batch_of_its_bin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampler = BallsInBins(expected_batch_size=4 / 3)
    for bins in product(range(3), repeat=4):
        chosen = numpy.array(bins)
        monkeypatch.setattr(
            "dppipe.randomness.draws.integers",
            lambda *_, chosen=chosen, **__: chosen,
        )
        batches = draw(sampler, 4)
        wanted = [[record for record in range(4) if bins[record] == step] for step in range(3)]
        assert [sorted(batch.tolist()) for batch in batches] == wanted


def test_a_record_reaches_every_batch_of_an_epoch_the_first_and_the_last_included() -> None:
    sampler = BallsInBins(expected_batch_size=1)
    hit = Counter[int]()
    for _ in range(400):
        batches = draw(sampler, 5)
        hit.update(step for step, batch in enumerate(batches) if 0 in batch)
    assert set(hit) == set(range(5))  # one is missed with a chance of less than 1e-37
