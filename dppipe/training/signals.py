"""Ctrl-C and SIGTERM: the step under way is finished and recorded, then the run stops."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopSignals:
    """Remembers the first SIGINT or SIGTERM; the second acts as it always did."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def listen(self) -> None:
        """Start to listen; outside the main thread signals can't be caught and nothing happens."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)

    def restore(self) -> None:
        """Stop to listen."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code that goes with the signal: 130 or 143."""
        return 128 + (self.received or signal.SIGINT)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.restore()
