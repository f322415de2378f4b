"""Physical batches that never split a unit: for users, and for clippers that average examples.

The gradients of a unit's examples are averaged before they are clipped, so they must be computed
together, on one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy
from numpy.typing import NDArray

from dppipe.learners.ranks import Ranks

Indices = NDArray[numpy.int64]
UnitOf = Callable[[Indices], Indices]
"""Returns the unit of each record, by the record's index alone."""


def split_by_unit(
    drawn: Indices, unit_of: UnitOf, *, size: int, ranks: Ranks
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the records of each physical batch of this rank, and the unit of each.

    A physical batch has at most `size` records, unless one unit alone has more.

    Guarantee: the records of a unit are in one physical batch of one rank, and the records of all
    physical batches of all ranks are the draw.
    """
    unit = unit_of(drawn)
    mine = unit % ranks.world == ranks.rank
    indices = drawn[mine]
    unit = unit[mine]
    order = numpy.argsort(unit, kind="stable")
    indices = indices[order]
    unit = unit[order]
    ends = numpy.append(numpy.flatnonzero(numpy.diff(unit)) + 1, len(unit))
    start = 0
    while start < len(unit):
        fitting = ends[(ends > start) & (ends <= start + size)]
        end = int(fitting[-1]) if len(fitting) else int(ends[ends > start][0])
        yield indices[start:end], unit[start:end]
        start = end
