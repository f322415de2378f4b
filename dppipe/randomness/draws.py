"""Secret choices among n records, made from random bytes. The cost grows with the choice, not n.

`integers`, `subset` and `permutation` are exactly uniform: they use integers only. `successes`
works in float64, so each record's probability is the stated one to within 2^-52. All functions take
a `ByteSource`; a run passes a `Keystream`.
"""

from __future__ import annotations

import math

import numpy
from numpy.typing import NDArray

from dppipe.randomness.keystream import ByteSource


def integers(source: ByteSource, below: int, *, size: int) -> NDArray[numpy.int64]:  # -> [size]
    """Draw `size` independent uniform integers from 0 to `below` - 1."""
    if not 0 < below <= 2**62:
        raise ValueError(f"expected an upper end from 1 to 2^62, got {below}")
    bits = (below - 1).bit_length()
    drawn = numpy.zeros(0 if bits else size, numpy.int64)
    while len(drawn) < size:
        # Words of `bits` bits are uniform. Those that are too large are dropped: at most half.
        count = (size - len(drawn)) * 2**bits // below + 8
        words = _words(source, count) >> numpy.uint64(64 - bits)
        drawn = numpy.concatenate([drawn, words[words < below].astype(numpy.int64)])
    return drawn[:size]


def subset(source: ByteSource, records: int, *, size: int) -> NDArray[numpy.int64]:  # -> [size]
    """Draw a uniform subset of `size` out of `records` records, in ascending order."""
    if not 0 <= size <= records:
        raise ValueError(f"expected a size from 0 to the {records} records, got {size}")
    if 2 * size > records:
        kept = numpy.ones(records, bool)
        kept[subset(source, records, size=records - size)] = False
        return numpy.flatnonzero(kept)
    # Each round draws as many records as are missing, so there are never too many. No record is
    # treated differently from another, so every subset of that size is equally likely.
    chosen = numpy.zeros(0, numpy.int64)
    while len(chosen) < size:
        more = integers(source, records, size=size - len(chosen))
        drawn = numpy.sort(numpy.concatenate([chosen, more]))
        chosen = drawn[numpy.diff(drawn, prepend=-1) > 0]
    return chosen


def permutation(source: ByteSource, records: int) -> NDArray[numpy.int64]:  # -> [records]
    """Draw a uniform order of all records."""
    while True:
        words = _words(source, records)
        order = numpy.argsort(words)
        # The sort decides the order of equal words. Without any, every order is equally likely.
        if (numpy.diff(words[order].astype(numpy.uint64)) > 0).all():
            return order.astype(numpy.int64)


def successes(source: ByteSource, records: int, *, rate: float) -> NDArray[numpy.int64]:  # -> [any]
    """Choose each of `records` records with probability `rate`, independently, in ascending order.

    The number of records between two chosen ones is geometric: it is at least k with probability
    (1 - rate)^k. That is the distribution of floor(ln V / ln(1 - rate)) for V uniform on (0, 1).
    """
    if not 0 < rate <= 1:
        raise ValueError(f"expected a rate above 0 and up to 1, got {rate}")
    if rate == 1:
        return numpy.arange(records)
    found = []
    start = 0
    while start < records:
        expected = (records - start) * rate
        words = _words(source, int(expected + 4 * math.sqrt(expected)) + 8)
        uniforms = (words + 0.5) * 2.0**-64
        with numpy.errstate(over="ignore"):  # at tiny rates all records are skipped
            skipped = numpy.minimum(numpy.log(uniforms) / math.log1p(-rate), records)
        found.append(start + numpy.cumsum(skipped.astype(numpy.int64) + 1) - 1)
        start = int(found[-1][-1]) + 1
    chosen = numpy.concatenate([numpy.zeros(0, numpy.int64), *found])
    return chosen[: numpy.searchsorted(chosen, records)]


def _words(source: ByteSource, count: int) -> NDArray[numpy.uint64]:
    return numpy.frombuffer(source.bytes(8 * count), numpy.uint64)
