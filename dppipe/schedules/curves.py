"""Shapes that start at 1 and move to another value: a relative size for each progress.

Progress is 0.0 at the start of a run and 1.0 at its end.
"""

from __future__ import annotations

import math


def constant(progress: float) -> float:
    """Return 1 whatever the progress."""
    return 1.0


def linear(progress: float, *, end: float) -> float:
    """Move from 1 to `end` in a straight line."""
    return 1 + (end - 1) * progress


def cosine(progress: float, *, end: float) -> float:
    """Move from 1 to `end` along half a cosine wave, slowly at both ends."""
    return end + (1 - end) * (1 + math.cos(math.pi * progress)) / 2


def exponential(progress: float, *, end: float) -> float:
    """Move from 1 to `end` by the same proportion at every step."""
    return float(end**progress)


def step(progress: float, *, factor: float, drops: int) -> float:
    """Multiply by `factor` at each of `drops` evenly spaced moments."""
    return float(factor ** min(drops, int(progress * (drops + 1))))
