"""Keys of independent secret streams for the sampler, the noise and the model.

They come from the operating system's entropy and stay in memory: they are never written, logged or
shown. `reproducible` keys are derived from the public seed, for tests; a run that uses them gives
no protection, and its statement says so.
"""

from __future__ import annotations

import hashlib
import os
from typing import Literal

Purpose = Literal[
    "sampler",
    "noise",
    "count",
    "statistics",
    "model",
    "release",
    "selection",
    "median",
    "flips",
    "audit",
]


def stream_key(purpose: Purpose, *, seed: int | None = None) -> bytes:
    """Return 32 fresh secret bytes or, with a seed, bytes that anyone can derive again."""
    if seed is None:
        return os.urandom(32)
    return hashlib.sha256(f"dppipe reproducible {purpose} {seed}".encode()).digest()
