"""Secret byte streams for tests that draw as a run does."""

from __future__ import annotations

from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import Purpose, stream_key


def secret_stream(purpose: Purpose, *, seed: int | None = None) -> Keystream:
    """Return a stream with a fresh key or, with a seed, with the key of that seed."""
    return Keystream(stream_key(purpose, seed=seed))
