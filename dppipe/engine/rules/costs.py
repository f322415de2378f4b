"""What a kernel costs, so that each layer takes the cheaper one: a model of arithmetic and traffic, never a timing of data."""

from __future__ import annotations

WORD = 40.0
"""Multiply-adds that take as long as reading or writing one float32 from memory."""


def outer_costs(positions: int, inputs: int, outputs: int) -> dict[str, float]:
    """Give the cost per row, in multiply-adds, that norms of a sum of outer products add to the weighted sum itself."""
    ghost = positions**2 * (inputs + outputs) + 3 * WORD * positions**2
    dense = 3 * WORD * inputs * outputs
    return {"ghost": ghost, "dense": dense}
