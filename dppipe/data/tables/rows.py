"""Rows of numbers that grow block by block, without a second copy in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

_FIRST = 65_536
"""How many rows there is room for at the start."""


class GrowingRows:
    """A two-dimensional array that takes more rows at its end."""

    def __init__(self, width: int, dtype: type) -> None:
        import numpy

        self._array: numpy.ndarray = numpy.empty((_FIRST, width), dtype=dtype)
        self._filled = 0

    def append(self, block: numpy.ndarray) -> None:  # [rows, width]
        """Add rows at the end."""
        needed = self._filled + len(block)
        if needed > len(self._array):
            # A large array is moved by its pages, not copied.
            room = max(needed, len(self._array) * 3 // 2)
            self._array.resize((room, self._array.shape[1]), refcheck=False)
        self._array[self._filled : needed] = block
        self._filled = needed

    def finish(self) -> numpy.ndarray:  # -> [rows, width]
        """Return all rows; nothing may be added afterwards."""
        self._array.resize((self._filled, self._array.shape[1]), refcheck=False)
        return self._array
