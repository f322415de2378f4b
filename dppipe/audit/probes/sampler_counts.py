"""The probe "sampler": which units the run's own sampler draws, counted.

Draws go through the loader of a run, at the plan's own rate and number of units, and for samplers
of independent coins also over short epochs of ten steps, where shuffled batches show: each unit
would be in exactly one of them. All tests are exact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import special, stats
from torch.utils.data import TensorDataset

from dppipe.audit.probes.observed_step import make_loader
from dppipe.audit.probes.subject import probe_plan
from dppipe.audit.probes.verdict import SHARES, ProbeResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dppipe.audit.probes.subject import Subject
    from dppipe.learners.records.loader import PrivateLoader

    Counts = NDArray[np.int64]

WATCHED = 20
"""How many units are watched one by one: the first ones."""
EPOCH = 10
"""The steps of a short epoch."""
_SHORT_UNITS = 200
_USES = 100.0
"""How often each unit should be drawn: then one with twice the rate is found nearly always."""
_MOST_UNITS = 5000
_MOST_DRAWS = 20_000
_LEAST_DRAWS = 50
_DEFAULT_UNITS = 1000
"""The number of units where the relation keeps it secret."""


@dataclass
class SamplerTests:
    """Collects the tests; each gets the same part of the probe's level."""

    p_values: dict[str, float] = field(default_factory=dict)

    def binomial(self, name: str, hits: int, trials: int, chance: float) -> None:
        """Compare a count with a binomial distribution, on both sides."""
        self.p_values[name] = float(stats.binomtest(hits, trials, chance).pvalue)

    def required(self, name: str, holds: bool) -> None:
        """Note what must hold without exception."""
        self.p_values[name] = 1.0 if holds else 0.0

    @property
    def p_value(self) -> float:
        """The smallest p-value times their number."""
        return min(1.0, min(self.p_values.values()) * len(self.p_values))


@dataclass(frozen=True)
class _Draws:
    """The draws of many steps at one rate."""

    uses: Counts
    """`[units]`: how often each was drawn in all."""
    sizes: Counts
    """`[draws]`: the size of each batch."""
    watched: NDArray[np.bool_]
    """`[draws, WATCHED]`"""
    units: int
    rate: float


def probe_sampler(
    subject: Subject, *, seconds: float, progress: Callable[[int], None]
) -> ProbeResult:
    """Draw batches as a run does, and count.

    Guarantee: for correct code the probability of a p-value of at most p is at most p.
    """
    kind = subject.parts.sampler.kind
    tests = SamplerTests()
    units = _units(subject)
    rate = subject.parts.sampler.rate(units)
    if subject.plan.epochwise:
        epochs = _test_epochs(subject, tests, units, progress)
        measured = f"{WATCHED} units, {epochs} epochs of {subject.plan.steps_per_epoch} steps"
        return _result(kind, tests, measured, fault="a unit in two batches of an epoch", power=1.0)
    drawn = _draw(subject, units, rate, seconds=seconds, progress=progress)
    draws = len(drawn.sizes)
    measured = f"{draws:,} draws from {units:,} units at rate {rate:.4g}"
    if kind == "full_batch":
        tests.required("every unit in every batch", bool((drawn.uses == draws).all()))
        return _result(kind, tests, measured, fault="a unit that isn't drawn", power=1.0)
    if kind in ("poisson", "user"):
        _test_short_epoch(subject, tests)
    _test_draws(kind, tests, drawn)
    power = _power(draws, units, rate, error=SHARES["sampler"] / len(tests.p_values))
    return _result(kind, tests, measured, fault="one unit drawn twice as often", power=power)


def _units(subject: Subject) -> int:
    """Return how many units are drawn from: those of the plan, or a number that suits the size."""
    plan = subject.plan
    known = plan.records or round(plan.expected_batch_size / plan.sample_rate) or _DEFAULT_UNITS
    if not plan.epochwise and not subject.parts.sampler.fixed_size:
        return max(WATCHED, min(known, _MOST_UNITS))
    return known


def _loader(subject: Subject, units: int, rate: float, *, steps: int, epoch: int) -> PrivateLoader:
    sampler = subject.parts.sampler
    plan = probe_plan(
        subject.plan,
        sampler,
        rate=rate,
        multiplier=subject.multiplier,
        units=units,
        steps=steps,
        epoch=epoch,
    )
    dataset = TensorDataset(torch.zeros(units))
    dataset.users = np.arange(units)  # type: ignore[attr-defined]
    return make_loader(dataset, subject.parts, plan)


def _draw(
    subject: Subject,
    units: int,
    rate: float,
    *,
    seconds: float,
    progress: Callable[[int], None],
) -> _Draws:
    wanted = int(min(_MOST_DRAWS, max(_LEAST_DRAWS, _USES / rate)))
    loader = _loader(subject, units, rate, steps=wanted + 1, epoch=1)
    started = time.monotonic()
    loader.draw(1)
    each = time.monotonic() - started
    draws = max(_LEAST_DRAWS, min(wanted, int(seconds / max(each, 1e-5))))
    uses = np.zeros(units, dtype=np.int64)
    sizes = []
    watched = np.zeros((draws, WATCHED), dtype=bool)
    for place in range(draws):
        found = loader.draw(place + 1)
        uses += np.bincount(found, minlength=units)
        sizes.append(len(found))
        watched[place, found[found < WATCHED]] = True
        if place % 100 == 99:
            progress(100)
    return _Draws(uses, np.array(sizes), watched, units, rate)


def _test_short_epoch(subject: Subject, tests: SamplerTests) -> None:
    """Test how many watched units are in exactly one of ten batches: all of them, if shuffled."""
    loader = _loader(subject, _SHORT_UNITS, 1 / EPOCH, steps=EPOCH, epoch=1)
    counts = np.zeros(_SHORT_UNITS, dtype=np.int64)
    for step in range(1, EPOCH + 1):
        counts += np.bincount(loader.draw(step), minlength=_SHORT_UNITS)
    once = int((counts[:WATCHED] == 1).sum())
    chance = (1 - 1 / EPOCH) ** (EPOCH - 1)
    tests.binomial("units in one of ten batches", once, WATCHED, chance)


def _test_draws(kind: str, tests: SamplerTests, drawn: _Draws) -> None:
    draws = len(drawn.sizes)
    constant = kind in ("without_replacement", "with_replacement")
    size = round(drawn.units * drawn.rate)
    if constant:
        tests.required("the size of each batch", bool((drawn.sizes == size).all()))
    elif kind != "truncated_poisson":
        _test_sizes(tests, drawn)
    trials = draws * size if kind == "with_replacement" else draws
    chance = 1 / drawn.units if kind == "with_replacement" else drawn.rate
    _test_each_unit(tests, drawn.uses, trials, chance)
    if kind != "with_replacement":
        _test_neighbours(tests, drawn)
    if kind in ("poisson", "user"):
        pairs = drawn.watched[:, ::2] & drawn.watched[:, 1::2]
        tests.binomial("pairs of units", int(pairs.sum()), pairs.size, drawn.rate**2)


def _test_sizes(tests: SamplerTests, drawn: _Draws) -> None:
    """Test the total, and how many batches have a middle size: all, if sizes are fixed."""
    draws = len(drawn.sizes)
    tests.binomial("the number of draws", int(drawn.sizes.sum()), draws * drawn.units, drawn.rate)
    sizes = stats.binom(drawn.units, drawn.rate)
    low, high = sizes.ppf(0.25), sizes.ppf(0.75)
    middle = int(((drawn.sizes >= low) & (drawn.sizes <= high)).sum())
    chance = float(sizes.cdf(high) - sizes.cdf(low - 1))
    tests.binomial("batches of a middle size", middle, draws, min(chance, 1.0))


def _test_each_unit(tests: SamplerTests, uses: Counts, trials: int, chance: float) -> None:
    """Test each unit's own number of draws; the smallest p-value counts for all of them."""
    below = special.bdtr(uses, trials, chance)
    above = special.bdtrc(uses - 1, trials, chance)
    above = np.where(uses == 0, 1.0, above)
    smallest = float(np.minimum(below, above).min())
    tests.p_values["the rate of each unit"] = min(1.0, 2 * smallest * len(uses))


def _test_neighbours(tests: SamplerTests, drawn: _Draws) -> None:
    """Test how often a watched unit is in two steps in a row; pairs of steps don't overlap."""
    draws = len(drawn.sizes) // 2 * 2
    both = drawn.watched[0:draws:2] & drawn.watched[1:draws:2]
    # One unit alone where batches have a fixed size: several units' draws depend on each other.
    tests.binomial("neighbouring steps", int(both[:, 0].sum()), len(both), drawn.rate**2)


def _test_epochs(
    subject: Subject, tests: SamplerTests, units: int, progress: Callable[[int], None]
) -> int:
    """Require each watched unit in exactly one batch of each epoch."""
    plan = subject.plan
    epochs = 20
    length = plan.steps_per_epoch
    loader = _loader(subject, units, plan.sample_rate, steps=epochs * length, epoch=length)
    watched = min(WATCHED, units)
    once = True
    for epoch in range(epochs):
        counts = np.zeros(watched, dtype=np.int64)
        for place in range(length):
            found = loader.draw(epoch * length + place + 1)
            counts += np.bincount(found[found < watched], minlength=watched)
        once = once and bool((counts == 1).all())
        progress(length)
    tests.required("each watched unit once an epoch", once)
    return epochs


def _power(draws: int, units: int, rate: float, *, error: float) -> float:
    """Return the chance that a unit of twice the rate is found: exact."""
    share = error / units / 2
    least = stats.binom.isf(share, draws, rate) + 1
    return float(stats.binom.sf(least - 1, draws, min(1.0, 2 * rate)))


def _result(
    kind: str, tests: SamplerTests, measured: str, *, fault: str, power: float
) -> ProbeResult:
    worst = min(tests.p_values, key=lambda name: tests.p_values[name])
    return ProbeResult(
        probe="sampler",
        claimed=f"units are drawn as {kind} says",
        measured=f"{measured}; worst test: {worst}",
        p_value=tests.p_value,
        level=SHARES["sampler"],
        fault=fault,
        power=power,
        numbers={"p_values": tests.p_values, "drawn": measured},
    )
