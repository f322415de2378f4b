"""Ports on which processes of a test meet."""

from __future__ import annotations

import random
import socket

_RANGE = range(15_000, 30_000)
"""Below the ports that the system hands out by itself, so that no other test takes one meanwhile."""


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_RANGE)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
