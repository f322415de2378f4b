"""Output of user code while it sees records: it would be a function of them without noise."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any


@contextmanager
def silenced() -> Iterator[None]:
    """Drop what this thread prints, warns of or logs in a block."""
    handle = logging.Logger.handle
    thread = threading.get_ident()

    def handle_others(logger: logging.Logger, record: logging.LogRecord) -> None:
        if threading.get_ident() != thread:
            handle(logger, record)

    logging.Logger.handle = handle_others  # type: ignore[assignment, method-assign]
    try:
        with (
            redirect_stdout(_SilencedStream(sys.stdout, thread=thread)),
            redirect_stderr(_SilencedStream(sys.stderr, thread=thread)),
            warnings.catch_warnings(action="ignore"),
        ):
            yield
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]


class _SilencedStream(io.TextIOBase):
    """A stream that drops what one thread writes; a progress bar's thread still gets through."""

    def __init__(self, stream: Any, *, thread: int) -> None:
        self._stream = stream
        self._thread = thread

    @property
    def buffer(self) -> _SilencedStream:
        """The stream of bytes below: user code may write to it directly."""
        return _SilencedStream(self._stream.buffer, thread=self._thread)

    def write(self, text: Any) -> int:
        """Write what comes from another thread."""
        if threading.get_ident() != self._thread:
            return int(self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush what comes from another thread."""
        if threading.get_ident() != self._thread:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
