"""Physical pieces for clippers that average examples: a slot is never cut, and stands on one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy
from numpy.typing import NDArray

from dppipe.learners.ranks import Ranks

Indices = NDArray[numpy.int64]
Slots = Callable[[Indices], Indices]
"""The slot of each record, by its index alone."""


def slot_pieces(
    drawn: Indices, slots: Slots, *, size: int, ranks: Ranks
) -> Iterator[tuple[Indices, Indices]]:
    """Give this rank's records slot by slot, in pieces of at most `size` records unless one slot alone holds more.

    Guarantee: the records of a slot stand in one piece of one rank, and those of all pieces and ranks make up the draw.
    """
    slot = slots(drawn)
    mine = slot % ranks.world == ranks.rank
    indices, slot = drawn[mine], slot[mine]
    order = numpy.argsort(slot, kind="stable")
    indices, slot = indices[order], slot[order]
    ends = numpy.append(numpy.flatnonzero(numpy.diff(slot)) + 1, len(slot))
    start = 0
    while start < len(slot):
        fitting = ends[(ends > start) & (ends <= start + size)]
        end = int(fitting[-1]) if len(fitting) else int(ends[ends > start][0])
        yield indices[start:end], slot[start:end]
        start = end
