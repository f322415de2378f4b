"""When training records may be read: inside a gate's computation, and at no other time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class ReadingWindow:
    """Whether records may be read: only while a release is being computed."""

    is_open: bool = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Let records be read during a block."""
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False
