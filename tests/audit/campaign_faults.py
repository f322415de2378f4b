"""Faults that the campaign plants in the real code paths of this process, one at a time.

Each is a context manager that replaces a method of the package and puts it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import numpy as np
import torch

import dppipe.audit.probes.audit_spec as audit_spec
from dppipe.engine import Engine
from dppipe.learners.gating.sources import NoiseSources
from dppipe.randomness.gaussian import GaussianStream
from dppipe.randomness.keystream import Keystream
from dppipe.sampling import Poisson

TENSORS = {"1.weight": 128, "1.bias": 16, "3.weight": 48, "3.bias": 3}
"""The parameters of the campaign's model, in the order of a release, and their sizes."""
RECORDS = 1000


@contextmanager
def none(audit: int) -> Iterator[None]:
    """Correct code."""
    yield


@contextmanager
def noise_divided(by: float) -> Iterator[None]:
    """Noise of a part of its size."""
    real = GaussianStream.add_

    def smaller(self, flat, std, *, over=1.0):
        return real(self, flat, std / by, over=over)

    with mock.patch.object(GaussianStream, "add_", smaller):
        yield


def noise_halved(audit: int) -> AbstractContextManager[None]:
    """Noise of half its size."""
    return noise_divided(2)


def _places() -> dict[str, slice]:
    found = {}
    start = 0
    for name, size in TENSORS.items():
        found[name] = slice(start, start + size)
        start += size
    return found


@contextmanager
def noise_missing_on_one_tensor(audit: int) -> Iterator[None]:
    """The tensors take turns."""
    real = GaussianStream.add_
    name = list(TENSORS)[audit % len(TENSORS)]
    place = _places()[name]

    def without(self, flat, std, *, over=1.0):
        kept = flat[place].clone() / over
        real(self, flat, std, over=over)
        flat[place] = kept
        return flat

    with mock.patch.object(GaussianStream, "add_", without):
        yield


@contextmanager
def noise_reused_between_steps(audit: int) -> Iterator[None]:
    real = GaussianStream.add_
    made = GaussianStream.__init__

    def remembering(self, key, *, secure=False):
        made(self, key, secure=secure)
        self.first_key = key

    def again(self, flat, std, *, over=1.0):
        self._keystream = Keystream(self.first_key)
        return real(self, flat, std, over=over)

    with (
        mock.patch.object(GaussianStream, "__init__", remembering),
        mock.patch.object(GaussianStream, "add_", again),
    ):
        yield


def unclipped(layer: str) -> Callable[[int], AbstractContextManager[None]]:
    """Return the fault of a layer whose gradients are added as they are."""

    @contextmanager
    def planted(audit: int) -> Iterator[None]:
        real = Engine._add

        def skipping(self, gradients, into, factors, *, finite):
            others = {name: found for name, found in gradients.items() if name != layer}
            real(self, others, into, factors, finite=finite)
            real(self, {layer: gradients[layer]}, into, torch.ones_like(factors), finite=finite)

        with mock.patch.object(Engine, "_add", skipping):
            yield

    return planted


@contextmanager
def bound_on_the_mean(audit: int) -> Iterator[None]:
    """The mean gradient of a batch is clipped, instead of each example's."""
    real = Engine._add

    def of_the_mean(self, gradients, into, factors, *, finite):
        sums = {name: torch.zeros_like(into[name]) for name in gradients}
        real(self, gradients, sums, torch.ones_like(factors), finite=finite)
        mean = torch.cat([value.flatten() for value in sums.values()]).norm() / len(factors)
        factor = (self.clipper.max_grad_norm / mean).clamp(max=1)
        for name, value in sums.items():
            into[name] += value * factor

    with mock.patch.object(Engine, "_add", of_the_mean):
        yield


class _Halved:
    def __init__(self, inner):
        self.inner = inner

    def add_(self, flat, std, *, over=1.0):
        return self.inner.add_(flat, std / 2, over=over)


@contextmanager
def count_noise_halved(audit: int) -> Iterator[None]:
    real = NoiseSources.get

    def smaller(self, purpose, mechanism="gaussian"):
        found = real(self, purpose, mechanism)
        return _Halved(found) if purpose == "count" else found

    with mock.patch.object(NoiseSources, "get", smaller):
        yield


@contextmanager
def shuffled_batches(audit: int) -> Iterator[None]:
    """Batches of a fresh order of all records, charged as Poisson batches."""
    waiting: dict[tuple[int, float], list[np.ndarray]] = {}

    def shuffled(self, records, *, rate, generator):
        left = waiting.setdefault((records, rate), [])
        if not left:
            order = np.random.default_rng().permutation(records)
            left += np.array_split(order, round(1 / rate))
        return np.sort(left.pop())

    with mock.patch.object(Poisson, "draw", shuffled):
        yield


@contextmanager
def one_record_more_often(times: int) -> Iterator[None]:
    """A record of the data, another one in each audit, that the audit can't know."""
    real = Poisson.draw
    chosen = int(np.random.default_rng().integers(RECORDS))

    def favouring(self, records, *, rate, generator):
        found = real(self, records, rate=rate, generator=generator)
        number = chosen % records
        if number not in found and np.random.random() < (times - 1) * rate / (1 - rate):
            found = np.sort(np.append(found, number))
        return found

    with mock.patch.object(Poisson, "draw", favouring):
        yield


def one_record_twice_as_often(audit: int) -> AbstractContextManager[None]:
    """A record with twice the rate."""
    return one_record_more_often(2)


@contextmanager
def without_transcript() -> Iterator[None]:
    """Leave out the longest probe, which looks at the sampler alone."""
    with mock.patch.object(audit_spec, "can_transcribe", return_value=False):
        yield
