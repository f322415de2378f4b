"""What a kernel costs, so that each layer takes the cheaper one.

It is a model of arithmetic and memory traffic, never a timing of data. One unit is one multiply-add
of a large matrix product. The constants were fitted to a server processor with freed memory kept
(`allocator.py`). They change speed alone, never a result.
"""

from __future__ import annotations

WORD = 37.0
"""Units to write one float32 and to read it twice, for its norm and for the weighted sum.

This holds while all values fit in the cache.
"""
FAR_WORD = 100.0
"""The same where they don't fit, with a penalty for the memory they take."""
CACHE = 1 << 23
"""Floats that fit in a cache that the cores share."""
MOVE = 20.0
"""Units to copy one float32 from one memory order to another."""
FEW = 1 << 15
"""Floats so few that forming them costs nothing; norms of formed gradients are more accurate."""


def formed(rows: int, values: int) -> float:
    """Return the cost per row of holding this many values for each of the rows."""
    if rows * values <= FEW:
        return 0.0
    return values * (WORD if rows * values <= CACHE else FAR_WORD)


def outer_costs(rows: int, positions: int, inputs: int, outputs: int) -> dict[str, float]:
    """Return what norms of sums of outer products add to the cost of the weighted sum, per row."""
    small = 1 + (50 / positions) ** 1.5  # products of small matrices are slower
    return {
        "ghost": small * positions**2 * (inputs + outputs) + 3 * MOVE * positions**2,
        "dense": formed(rows, inputs * outputs),
    }
