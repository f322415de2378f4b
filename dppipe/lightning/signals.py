"""Ctrl-C and SIGTERM: the step under way is finished and recorded, then the run stops.

After the first signal a Ctrl-C ends the run at once, as it always does. A second SIGTERM is
ignored: schedulers and `timeout` send it more than once, and a Trainer's own handler would stop the
run after the same step, but without a checkpoint.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopSignals:
    """Remembers the first SIGINT or SIGTERM; a Ctrl-C after it acts as it always did."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def listen(self, *, terminated: bool = False) -> None:
        """Start to listen; outside the main thread signals can't be caught and nothing happens.

        Args:
            terminated: Whether a SIGTERM came before, which another handler has received.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # Noted first: a signal may come in the next instant.
                self._before[number] = signal.getsignal(number)
                signal.signal(number, self._remember)
        if terminated:
            self._remember(signal.SIGTERM, None)

    def restore(self) -> None:
        """Stop listening.

        When a fit ends well, a Trainer has put back the handlers from before it. They stay: the
        Trainer's own handlers belong to a fit that is over, and would keep a SIGTERM from ending
        the process.
        """
        for number in list(self._before):
            self._restore(number)

    @property
    def exit_code(self) -> int:
        """The exit code that goes with the signal: 130 or 143."""
        return 128 + (self.received or signal.SIGINT)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number
        self._restore(signal.SIGINT)

    def _restore(self, number: int) -> None:
        if number in self._before:
            before = self._before.pop(number)
            if signal.getsignal(number) == self._remember:
                signal.signal(number, before)
