"""Sources of bytes that aren't random: a test chooses their words, to reach the ends of a range."""

from __future__ import annotations

import os

import numpy
from numpy.typing import NDArray


class ChosenWords:
    """Returns the given 64-bit words, in order."""

    def __init__(self, words: NDArray[numpy.uint64]) -> None:
        self._bytes = words.tobytes()

    def bytes(self, length: int, /) -> bytes:
        taken = self._bytes[:length]
        self._bytes = self._bytes[length:]
        return taken


def random_words(count: int, *, zeros: int = 0, ones: int = 0) -> NDArray[numpy.uint64]:
    """Return uniform words among those that begin with so many zeros, or with so many ones."""
    words = numpy.frombuffer(os.urandom(8 * count), numpy.uint64) >> numpy.uint64(zeros or ones)
    return ~words if ones else words


def edge_words() -> NDArray[numpy.uint64]:
    """Return all words within 1 of a power of two or of its complement."""
    near = [2**k + offset for k in range(65) for offset in (-1, 0, 1)]
    words = {word % 2**64 for word in near}
    return numpy.array(sorted(words | {2**64 - 1 - word for word in words}), numpy.uint64)
