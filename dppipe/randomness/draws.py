"""Secret choices among n records, made from random bytes at a cost in proportion to what is chosen, not to n.

`integers`, `subset` and `permutation` are exactly uniform: they use whole numbers only. `successes` works in float64, so each
record's chance is the stated one to within 2^-52. All take a `ByteSource`; a run gives them a `Keystream`.
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
        # Words of `bits` bits are uniform, and those that are too large are dropped: at most half of them.
        words = _words(source, (size - len(drawn)) * 2**bits // below + 8) >> numpy.uint64(
            64 - bits
        )
        drawn = numpy.concatenate([drawn, words[words < below].astype(numpy.int64)])
    return drawn[:size]


def subset(
    source: ByteSource, records: int, *, size: int
) -> NDArray[numpy.int64]:  # -> [size], ascending
    """Draw a uniform subset of `size` out of `records` records."""
    if not 0 <= size <= records:
        raise ValueError(f"expected a size from 0 to the {records} records, got {size}")
    if 2 * size > records:
        left_out = numpy.ones(records, bool)
        left_out[subset(source, records, size=records - size)] = False
        return numpy.flatnonzero(left_out)
    # Each round draws as many as are missing, so that there are never too many. Nothing here tells one record from another,
    # hence every subset of that size is equally likely.
    chosen = numpy.zeros(0, numpy.int64)
    while len(chosen) < size:
        drawn = numpy.sort(
            numpy.concatenate([chosen, integers(source, records, size=size - len(chosen))])
        )
        chosen = drawn[numpy.diff(drawn, prepend=-1) > 0]
    return chosen


def permutation(source: ByteSource, records: int) -> NDArray[numpy.int64]:  # -> [records]
    """Draw a uniform order of all records."""
    while True:
        words = _words(source, records)
        order = numpy.argsort(words)
        # Equal words would leave their order to the sort; without them, every order is equally likely.
        if (numpy.diff(words[order].astype(numpy.uint64)) > 0).all():
            return order.astype(numpy.int64)


def successes(
    source: ByteSource, records: int, *, rate: float
) -> NDArray[numpy.int64]:  # -> [any], ascending
    """Choose each of `records` records with probability `rate`, independently.

    The number of records that are passed over before the next one is chosen is geometric: at least k with probability
    (1 - rate)^k, which is the law of floor(ln V / ln(1 - rate)) for V uniform on (0, 1).
    """
    if not 0 < rate <= 1:
        raise ValueError(f"expected a rate above 0 and up to 1, got {rate}")
    if rate == 1:
        return numpy.arange(records)
    found, start = [], 0
    while start < records:
        expected = (records - start) * rate
        uniforms = (_words(source, int(expected + 4 * math.sqrt(expected)) + 8) + 0.5) * 2.0**-64
        with numpy.errstate(over="ignore"):  # at tiny rates all are passed over
            passed_over = numpy.minimum(numpy.log(uniforms) / math.log1p(-rate), records)
        found.append(start + numpy.cumsum(passed_over.astype(numpy.int64) + 1) - 1)
        start = int(found[-1][-1]) + 1
    chosen = numpy.concatenate([numpy.zeros(0, numpy.int64), *found])
    return chosen[: numpy.searchsorted(chosen, records)]


def _words(source: ByteSource, count: int) -> NDArray[numpy.uint64]:
    return numpy.frombuffer(source.bytes(8 * count), numpy.uint64)
