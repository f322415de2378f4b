"""Private medians: for each coordinate the exponential mechanism chooses one of many equal cells.

The cells cut the range [-R, R] into equal parts. The score of a cell is minus the larger of two
counts: the values below it, and those above it. It is the same for all cells between two
neighbouring values, so only groups of cells are told apart: one is chosen by Gumbel noise, and a
cell of it uniformly. Nothing but the middle of the chosen cell leaves this file. `SELECTION.md` has
the lemmas.
"""

from __future__ import annotations

import math

import numpy
from numpy.typing import NDArray

from dppipe.errors import PrivacyRefusal
from dppipe.randomness.draws import integers
from dppipe.randomness.exponential import exponentials
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.selection import LEAST_EPSILON, ROUNDING

CELLS = 2**20
"""How many cells a range has: a median is within R / 2^20 of the middle of its cell."""


class MedianStream:
    """A secret stream of what medians are chosen by: Gumbel values, and uniform integers.

    Guarantee, given a secret key that is used for nothing else: all draws are independent; a Gumbel
    value is that of `gumbel.py`, and an integer is exactly uniform.
    """

    def __init__(self, key: bytes) -> None:
        self._keystream = Keystream(key)

    def gumbels(self, size: int) -> NDArray[numpy.float64]:  # -> [size]
        """Return the next standard Gumbel values."""
        return -numpy.log(exponentials(self._keystream, size))

    def below(self, end: int) -> int:
        """Return a uniform integer from 0 to `end - 1`."""
        return int(integers(self._keystream, end, size=1)[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"


def select_medians(
    values: NDArray[numpy.float64], *, radius: float, epsilon: float, stream: MedianStream
) -> NDArray[numpy.float64]:  # [k, d] -> [d]
    """Return a private median of each column of values, which are clamped to [-radius, radius].

    Guarantee: if neighbours differ in one row at most, each median is epsilon-differentially
    private, and its privacy loss lies in an interval of length epsilon; up to
    (2 k + 1) (1 + exp(epsilon)) 2^-65 in probability. What rounding adds is paid for.

    Args:
        values: Must be finite. Their numbers of rows and columns must be public.
        radius: The range of a median; a public constant.
        epsilon: What each median may cost.
        stream: Its draws must be used for nothing else.
    """
    if values.ndim != 2 or not len(values) or not numpy.isfinite(values).all():
        raise PrivacyRefusal(
            "median: expected a table of finite values, got another thing. Nothing was released."
        )
    if not 0 < radius <= 1e100:
        raise ValueError(f"median: expected a radius from 0 to 1e100, got {radius}")
    found = numpy.empty(values.shape[1])
    for column in range(values.shape[1]):
        cells = cells_of(values[:, column], radius=radius)
        chosen = median_cell(cells, count=CELLS, epsilon=epsilon, stream=stream)
        found[column] = ((chosen + 0.5) / CELLS * 2 - 1) * radius
    return found


def cells_of(values: NDArray[numpy.float64], *, radius: float) -> NDArray[numpy.int64]:
    """Return the cell of each value; rounding decides for that value alone."""
    # Clamped first: a quotient that overflows would be warned of, which follows from records.
    shares = (numpy.clip(values, -radius, radius) / radius + 1) / 2
    return numpy.minimum((shares * CELLS).astype(numpy.int64), CELLS - 1)


def median_cell(
    cells: NDArray[numpy.int64], *, count: int, epsilon: float, stream: MedianStream
) -> int:
    """Return a cell that is chosen privately among `count`, preferring those near the median.

    Guarantee: if one of the k cells changes, no score changes by more than 1. Pr[j] is proportional
    to `exp((epsilon - 2^-40) score(j) / 2)`, which is the exponential mechanism.
    """
    if not LEAST_EPSILON <= epsilon < math.inf:
        raise ValueError(f"median: expected a finite epsilon of at least 2^-30, got {epsilon}")
    half = math.nextafter(epsilon - ROUNDING, 0) / 2
    starts, sizes, scores = _groups(numpy.sort(cells), count)
    # Differences of integers are exact, so that rounding doesn't grow with the number of values.
    behind = (scores - scores[sizes > 0].max()) * half
    with numpy.errstate(divide="ignore"):  # an empty group has no weight
        heights = behind + numpy.log(sizes)
    group = int(numpy.argmax(heights + stream.gumbels(len(sizes))))
    return int(starts[group]) + stream.below(int(sizes[group]))


def _groups(
    ordered: NDArray[numpy.int64], count: int
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Return the first cell, the size and the score of each group: 2 k + 1 groups for k values.

    The cells before each value and after the last one are groups, and so is each value's own cell.
    A value that stands there again has an empty group.
    """
    k = len(ordered)
    first = numpy.searchsorted(ordered, ordered, side="left")
    last = numpy.searchsorted(ordered, ordered, side="right")
    ends = numpy.concatenate([[-1], ordered, [count]])
    between = numpy.maximum(numpy.diff(ends) - 1, 0)
    places = numpy.arange(k + 1)
    starts = numpy.concatenate([ends[:-1] + 1, ordered])
    sizes = numpy.concatenate([between, first == places[:k]])
    scores = -numpy.concatenate([numpy.maximum(places, k - places), numpy.maximum(first, k - last)])
    return starts, sizes, scores
