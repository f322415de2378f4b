"""Commands in a process of their own, which is killed at an instant that a test chooses."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

Death = tuple[Any, str, Any]
"""An object, the name of its attribute, and what takes that attribute's place."""


def kill_at(death: Death, command: Callable[[], Any]) -> None:
    """Run a command in a forked process that is killed at this instant."""
    child = os.fork()
    if child == 0:
        try:
            setattr(*death)
            command()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
