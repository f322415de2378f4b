"""Processes that are killed at a chosen instant, for tests of what a crash leaves behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytorch_lightning  # noqa: F401 (a forked process finds it loaded)


def die(*args: Any, **kwargs: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does its work and dies."""

    def then_die(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)
        die()

    return then_die


def at_call(number: int, usual: Callable[..., Any], fatal: Callable[..., Any]) -> Any:
    """Return a function that is fatal when it is called for the so-many-th time."""
    calls = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return (fatal if calls == number else usual)(*args, **kwargs)

    return counted


write = os.write


def write_half_of_row(number: int) -> Any:
    """Return a write that is cut off in the so-many-th row of a ledger."""
    rows = 0

    def cut(fd: int, data: bytes) -> int:
        nonlocal rows
        rows += bytes(data[:7]) == b'{"row":'
        if rows == number:
            write(fd, data[: len(data) // 2])
            die()
        return write(fd, data)

    return cut


def killed(doomed: Callable[[], Any]) -> None:
    """Call a function in a process of its own, which must be killed before it returns."""
    child = os.fork()
    if child == 0:
        try:
            doomed()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
