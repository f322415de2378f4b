"""Secret randomness for the model: dropout masks, augmentations and whatever else user code draws.

Such draws depend on the position in the batch. If they came from the public seed, they would show a
record's position, so a private step takes them from a secret stream of their own. Draws outside of
private steps (weights, validation, hooks) continue from the public seed, as if no private step had
happened.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from dppipe.randomness.keystream import ByteSource

SEED_BYTES = 8


class ModelRandomness:
    """Seeds the generators that models and datasets draw from, anew for each private step."""

    def __init__(self, stream: ByteSource, *, device: torch.device, own_code: bool = True) -> None:
        """Take the stream that seeds are read from.

        Args:
            stream: Secret bytes; 24 are read for each step.
            device: The training device, whose own generator is seeded too.
            own_code: Whether user code runs in a step, which may draw from Python or NumPy.
        """
        self._stream = stream
        self._cuda = device if device.type == "cuda" else None
        self._own_code = own_code
        self._numpy = numpy.random.MT19937()

    @contextmanager
    def secret(self) -> Iterator[None]:
        """Make everything in the block draw from a secret seed; restore the generators after it."""
        seeds = [self._seed(), self._seed(), self._seed()]
        with _torch_seeded(seeds[0], self._cuda):
            if not self._own_code:
                yield
                return
            before = random.getstate()
            random.seed(seeds[1])
            try:
                with _numpy_seeded(seeds[2] % 2**32, self._numpy):
                    yield
            finally:
                random.setstate(before)

    def _seed(self) -> int:
        return int.from_bytes(self._stream.bytes(SEED_BYTES), "big") >> 1


@contextmanager
def _numpy_seeded(seed: int, source: numpy.random.MT19937) -> Iterator[None]:
    """Let NumPy's shared generator draw from another source in a block.

    Exchanging its source is far cheaper than reading and writing its state. A normal number that
    public code has made NumPy draw in advance is dropped.
    """
    before = get_bit_generator()
    set_bit_generator(source)
    numpy.random.seed(seed)
    try:
        yield
    finally:
        set_bit_generator(before)


@contextmanager
def _torch_seeded(seed: int, cuda: torch.device | None) -> Iterator[None]:
    before = torch.default_generator.get_state()
    before_cuda = torch.cuda.get_rng_state(cuda) if cuda is not None else None
    torch.default_generator.manual_seed(seed)
    if cuda is not None:
        with torch.cuda.device(cuda):
            torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
        if cuda is not None and before_cuda is not None:
            torch.cuda.set_rng_state(before_cuda, cuda)
