"""What every sampler keeps, over all that the registry finds: its event tells the truth about its draws.

`law_of` says what each event means for a draw; the checks compare a long series of draws with it. A new kind is tested by being
there: it needs an entry in `SAMPLER_OPTIONS` and, where it brings a new event, one in `law_of`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dp_accounting
import numpy
import pytest
from contracts.options import SAMPLERS as SAMPLER_OPTIONS
from numpy.typing import NDArray
from scipy import stats
from secret_streams import secret_stream

from dppipe.privacy.events.balls_in_bins import event_class
from dppipe.privacy.events.plain import event_from_data, event_to_data
from dppipe.privacy.support import SAMPLERS
from dppipe.randomness.keystream import ByteSource
from dppipe.sampling.base import Sampler
from dppipe.sampling.poisson import Poisson
from dppipe.spec.kinds.registry import Registry

KINDS = Registry().kinds("sampler")
RECORDS, STEPS = 200, 3000
MECHANISM = dp_accounting.GaussianDpEvent(1.5)


@dataclass(frozen=True)
class Law:
    """What an event says about the records of a step."""

    rate: float
    """Copies of a record in a batch, on average."""
    size_variance: float
    pairs: float
    """The expected product of the copies of two different records."""
    size_kurtosis: float | None = None
    """The fourth central moment of a batch's size over its squared variance; None where it is about
    that of a Poisson variable."""


def law_of(event: dp_accounting.DpEvent) -> Law:
    match event:
        case dp_accounting.GaussianDpEvent():
            return Law(1, 0, 1)
        case dp_accounting.PoissonSampledDpEvent(sampling_probability=q):
            return Law(q, RECORDS * q * (1 - q), q * q)
        case dp_accounting.SampledWithoutReplacementDpEvent(source_dataset_size=n, sample_size=m):
            return Law(m / n, 0, m * (m - 1) / (n * (n - 1)))
        case dp_accounting.SampledWithReplacementDpEvent(source_dataset_size=n, sample_size=m):
            return Law(m / n, 0, m * (m - 1) / n**2)
        case dp_accounting.TruncatedSubsampledGaussianDpEvent(
            dataset_size=n, sampling_probability=q, truncated_batch_size=most
        ):
            sizes, chances = (
                numpy.minimum(numpy.arange(n + 1), most),
                stats.binom.pmf(numpy.arange(n + 1), n, q),
            )
            mean, square = float(sizes @ chances), float(sizes**2 @ chances)
            variance = square - mean**2
            fourth = float((sizes - mean) ** 4 @ chances)
            pairs = (square - mean) / (n * (n - 1))
            return Law(mean / n, variance, pairs, fourth / variance**2 if variance else None)
    pytest.fail(f"say in law_of what a {type(event).__name__} means for a draw")


def draw_counts(
    sampler: Sampler, source: ByteSource | None = None, *, steps: int = STEPS
) -> NDArray[numpy.int64]:
    """Return the copies of each record in each of many steps: `[steps, records]`."""
    source, rate = source or secret_stream("sampler"), sampler.rate(RECORDS)
    rows = [
        numpy.bincount(sampler.draw(RECORDS, rate=rate, generator=source), minlength=RECORDS)
        for _ in range(steps)
    ]
    return numpy.stack(rows)


def check_rates(counts: NDArray[numpy.int64], law: Law) -> None:
    """Each record is drawn as often as the event says: binomial tails, false alarms below 1e-7 over all records."""
    if law.rate == 1 and law.size_variance == 0 and law.pairs == 1:
        assert (counts == 1).all()
        return
    # Exact but for sampling with replacement, whose copies vary a tenth more here; the false alarms allow for it.
    copies, likely = counts.sum(0), stats.binom(STEPS, law.rate)
    assert likely.cdf(copies.min()) > 1e-9 / RECORDS
    assert likely.sf(copies.max() - 1) > 1e-9 / RECORDS


def check_total(counts: NDArray[numpy.int64], law: Law) -> None:
    """Batches have the size and the spread that the event says. False alarms: below 1e-7 each.

    Batches that are nearly always cut off deviate rarely and far, which their kurtosis says.
    """
    sizes = counts.sum(1)
    if law.size_variance == 0:
        assert (sizes == round(RECORDS * law.rate)).all()
        return
    spread = math.sqrt(law.size_variance / len(sizes))
    assert abs(sizes.mean() - RECORDS * law.rate) < 6.2 * spread
    kurtosis = law.size_kurtosis or 3 + 1 / law.size_variance
    assert abs(sizes.var() / law.size_variance - 1) < 7 * math.sqrt((kurtosis - 1) / len(sizes))


def check_pairs(counts: NDArray[numpy.int64], law: Law) -> None:
    """Neighbours are in a batch together as often as the event says. False alarms: below 1e-8."""
    products = (counts[:, 1:] * counts[:, :-1]).mean(1)
    assert (
        abs(products.mean() - law.pairs) <= 6.5 * products.std() / math.sqrt(len(products)) + 1e-12
    )


def check_independent_steps(counts: NDArray[numpy.int64]) -> None:
    """A step says nothing about the next: lag-1 covariance of inclusion is 0. False alarms: below 1e-8."""
    centred = counts - counts.mean()
    products = (centred[1:] * centred[:-1]).sum(1)
    assert abs(products.mean()) <= 6.5 * products.std() / math.sqrt(len(products)) + 1e-12


def check_all(sampler: Sampler) -> None:
    law = law_of(sampler.event(MECHANISM, rate=sampler.rate(RECORDS)))
    counts = draw_counts(sampler)
    check_rates(counts, law)
    check_total(counts, law)
    check_pairs(counts, law)
    check_independent_steps(counts)


def examples() -> Iterator[Any]:
    for kind in KINDS:
        for options in SAMPLER_OPTIONS.get(kind, [{}]):
            yield pytest.param((kind, options), id=f"{kind}-{json.dumps(options)}")


@pytest.fixture(params=list(examples()))
def sampler(request: pytest.FixtureRequest) -> Sampler:
    kind, options = request.param
    return make(kind, **options)


def make(kind: str, **options: Any) -> Sampler:
    made = Registry().load("sampler", kind).from_data(options)
    assert isinstance(made, Sampler)
    return made


def test_every_kind_is_tested_and_has_a_place_among_the_proofs() -> None:
    assert set(KINDS) <= set(SAMPLER_OPTIONS)
    assert set(KINDS) <= set(SAMPLERS)


def test_draws_follow_the_law_that_the_event_charges(sampler: Sampler) -> None:
    """False alarms: below 1e-7 for all checks together."""
    if sampler.epochwise:
        pytest.skip("a step of an epoch depends on the others; its own tests say how")
    check_all(sampler)


def test_an_epoch_has_each_record_once_in_as_many_batches_as_it_has_steps(sampler: Sampler) -> None:
    if not sampler.epochwise:
        pytest.skip("draws step by step")
    source, rate = secret_stream("sampler"), sampler.rate(RECORDS)
    for _ in range(20):
        batches = sampler.draw_epoch(RECORDS, rate=rate, generator=source)
        assert len(batches) == sampler.epoch_length(RECORDS)
        assert sorted(numpy.concatenate(batches)) == list(range(RECORDS))
        assert not sampler.fixed_size or {len(batch) for batch in batches[:-1]} <= {
            sampler.expected(RECORDS)
        }


def test_an_epoch_is_charged_as_what_it_is(sampler: Sampler) -> None:
    """As one release on all records, or as bins that records fall into one by one. False alarms: below 1e-8 each."""
    if not sampler.epochwise:
        pytest.skip("is charged step by step")
    source, rate = secret_stream("sampler"), sampler.rate(RECORDS)
    event = sampler.event(MECHANISM, rate=rate)
    if event == MECHANISM:
        return  # which holds however an epoch is cut into batches
    assert type(event) is event_class()
    epochs = [sampler.draw_epoch(RECORDS, rate=rate, generator=source) for _ in range(1000)]
    assert {len(batches) for batches in epochs} == {event.bins}
    sizes, variance = (
        numpy.array([len(batches[0]) for batches in epochs]),
        RECORDS / event.bins * (1 - 1 / event.bins),
    )
    assert abs(sizes.mean() - RECORDS / event.bins) < 6.2 * math.sqrt(variance / len(sizes))
    assert abs(sizes.var() / variance - 1) < 7 * math.sqrt((2 + 1 / variance) / len(sizes))


def charges_copies(sampler: Sampler) -> bool:
    """Whether the event covers several copies of a record in one batch."""
    event = sampler.event(MECHANISM, rate=sampler.rate(RECORDS))
    return isinstance(event, dp_accounting.SampledWithReplacementDpEvent)


def test_copies_of_a_record_are_in_a_batch_only_where_the_event_says_so(sampler: Sampler) -> None:
    """Of 300 batches of 20 out of 200 records none has a copy with a chance below 1e-100."""
    with_copies = charges_copies(sampler)
    if sampler.expected(RECORDS) > 1:
        assert (draw_counts(sampler, steps=300).max() > 1) == with_copies


def test_indices_are_in_range_and_distinct_unless_copies_are_charged(sampler: Sampler) -> None:
    rate, source = sampler.rate(RECORDS), secret_stream("sampler")
    for _ in range(100):
        drawn = sampler.draw(RECORDS, rate=rate, generator=source)
        assert drawn.dtype == numpy.int64
        assert drawn.ndim == 1
        assert ((drawn >= 0) & (drawn < RECORDS)).all()
        assert charges_copies(sampler) or len(numpy.unique(drawn)) == len(drawn)


def test_the_event_holds_the_mechanism_and_can_be_charged(sampler: Sampler) -> None:
    event = sampler.event(MECHANISM, rate=sampler.rate(RECORDS))
    assert event_from_data(event_to_data(event)) == event
    inner = event
    while hasattr(inner, "event"):
        inner = inner.event
    assert inner.noise_multiplier == MECHANISM.noise_multiplier


@pytest.mark.parametrize("records", [200, 997, 60_000, 10**6 + 3, 10**9 + 7])
def test_the_event_counts_the_records_exactly(sampler: Sampler, records: int) -> None:
    event = sampler.event(MECHANISM, rate=sampler.rate(records))
    for name in ("source_dataset_size", "dataset_size"):
        assert getattr(event, name, records) == records


def test_sums_are_divided_by_the_expected_batch_size(sampler: Sampler) -> None:
    """The divisor is the mean of the batches, but for what truncation takes away."""
    assert sampler.expected(RECORDS) == pytest.approx(sampler.rate(RECORDS) * RECORDS)
    if sampler.epochwise:
        return  # the event is an epoch's
    law = law_of(sampler.event(MECHANISM, rate=sampler.rate(RECORDS)))
    assert law.rate * RECORDS <= sampler.expected(RECORDS) * (1 + 1e-9)


@pytest.mark.parametrize("physical_batch_size", [1, 7, 10**6])
def test_the_physical_batch_size_does_not_change_the_draws(
    sampler: Sampler, physical_batch_size: int
) -> None:
    other = type(sampler).from_data(
        {**sampler.model_dump(exclude_none=True), "physical_batch_size": physical_batch_size}
    )
    one, another = (
        draw_counts(each, secret_stream("sampler", seed=5), steps=20) for each in (sampler, other)
    )
    assert numpy.array_equal(one, another)
    rate = sampler.rate(RECORDS)
    assert other.event(MECHANISM, rate=rate) == sampler.event(MECHANISM, rate=rate)


def test_draws_come_from_the_stream_alone(sampler: Sampler) -> None:
    one, again = (
        draw_counts(sampler, secret_stream("sampler", seed=5), steps=20) for _ in range(2)
    )
    assert numpy.array_equal(one, again)
    draw_counts(sampler, numpy.random.default_rng(5), steps=2)  # any source of bytes will do


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_record_is_drawn_at_every_step(kind: str) -> None:
    if "expected_batch_size" not in Registry().load("sampler", kind).model_fields:
        options = {}
    else:
        options = {"expected_batch_size": 1}
    sampler, source = make(kind, **options), secret_stream("sampler")
    if sampler.rate(1) < 1:
        pytest.skip("its rate is fixed, and below 1")
    for _ in range(20):
        assert sampler.draw(1, rate=sampler.rate(1), generator=source).tolist() == [0]


class Planted(Poisson):
    """A sampler with a mistake, charged as Poisson sampling: the checks must find it."""


class Shuffled(Planted, kind="shuffled"):
    """Goes through a shuffled data set, batch after batch."""

    def draw(self, records: int, *, rate: float, generator: Any) -> NDArray[numpy.int64]:
        queue = QUEUES.setdefault(id(generator), [])
        if not queue:
            order = numpy.argsort(numpy.frombuffer(generator.bytes(8 * records), numpy.uint64))
            queue.extend(numpy.split(order, round(1 / rate)))
        return queue.pop()


QUEUES: dict[int, list[NDArray[numpy.int64]]] = {}


class FixedSize(Planted, kind="fixed_size"):
    """Takes a batch of exactly the expected size."""

    def draw(self, records: int, *, rate: float, generator: Any) -> NDArray[numpy.int64]:
        from dppipe.randomness.draws import subset

        return subset(generator, records, size=round(rate * records))


class NeverEmpty(Planted, kind="never_empty"):
    """Draws again where a batch is empty."""

    def draw(self, records: int, *, rate: float, generator: Any) -> NDArray[numpy.int64]:
        while not len(drawn := super().draw(records, rate=rate, generator=generator)):
            pass
        return drawn


class Sticky(Planted, kind="sticky"):
    """Takes whole neighbourhoods: a record comes with the next one."""

    def draw(self, records: int, *, rate: float, generator: Any) -> NDArray[numpy.int64]:
        half = super().draw(records // 2, rate=rate, generator=generator)
        return numpy.concatenate([2 * half, 2 * half + 1])


class Greedy(Planted, kind="greedy"):
    """Draws at a rate above the one that is charged."""

    def draw(self, records: int, *, rate: float, generator: Any) -> NDArray[numpy.int64]:
        return super().draw(records, rate=1.1 * rate, generator=generator)


@pytest.mark.parametrize(
    ("planted", "options"),
    [
        (Shuffled, {"expected_batch_size": 20}),
        (FixedSize, {"expected_batch_size": 20}),
        (NeverEmpty, {"expected_batch_size": 1}),
        (Sticky, {"expected_batch_size": 20}),
        (Greedy, {"expected_batch_size": 20}),
    ],
)
def test_a_sampler_that_is_not_poisson_but_charged_as_such_is_found(
    planted: type[Poisson], options: dict[str, Any]
) -> None:
    with pytest.raises(AssertionError):
        check_all(planted.from_data(options))


def test_shuffling_is_found_by_its_dependent_steps_alone() -> None:
    with pytest.raises(AssertionError):
        check_independent_steps(draw_counts(Shuffled(expected_batch_size=20)))
