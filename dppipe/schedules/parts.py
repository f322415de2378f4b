"""A shape that is constant in each of several parts of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise


def piecewise(progress: float, *, values: Sequence[float], boundaries: Sequence[float]) -> float:
    """Return the value of the part that the progress falls in; a boundary begins the next part."""
    return float(values[bisect_right(boundaries, progress)])


def check_parts(values: Sequence[float], boundaries: Sequence[float]) -> None:
    """Refuse boundaries that don't separate the values in ascending order."""
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            f"expected one boundary fewer than the {len(values)} values, got {len(boundaries)}. "
            "Give each value but the first its boundary."
        )
    for earlier, later in pairwise(boundaries):
        if later <= earlier:
            raise ValueError(
                f"expected boundaries in ascending order, got {list(boundaries)}. Sort them."
            )
