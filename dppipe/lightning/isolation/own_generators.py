"""Random generators that modules and datasets keep: in a private step they are secret too.

With a public seed, a record's draws depend on its position, so one record would decide what others
get. Seeded from the secret stream, each record's draws are independent of the others'.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from dppipe.lightning.isolation.held_objects import find_held

GENERATORS = (torch.Generator, numpy.random.Generator, numpy.random.RandomState, random.Random)


def find_generators(*holders: Any) -> list[Any]:
    """Return the generators that objects keep.

    A generator that no attribute, container or closure leads to isn't found.
    """
    return find_held(holders, GENERATORS)


@contextmanager
def secretly_seeded(found: Sequence[Any]) -> Iterator[None]:
    """Seed generators from torch's shared one, which is secret here; restore them at the end."""
    before = [_state(generator) for generator in found]
    for generator in found:
        _seed(generator, int(torch.randint(2**31, ())))
    try:
        yield
    finally:
        for generator, state in zip(found, before, strict=True):
            _put_back(generator, state)


def _seed(generator: Any, seed: int) -> None:
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, numpy.random.Generator):
        kind: Any = type(generator.bit_generator)
        generator.bit_generator.state = kind(seed).state
    else:
        generator.seed(seed)


def _state(generator: Any) -> Any:
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)
