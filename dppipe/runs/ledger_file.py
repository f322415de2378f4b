"""The ledger as a file: writing its end, and the lock that keeps other writers out."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dppipe.errors import PrivacyRefusal, UsageError


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes, in as many calls as the system needs."""
    while data:
        data = data[os.write(fd, data) :]


def overwrite_end(fd: int, data: bytes, *, over: int) -> None:
    """Write over the last bytes of an append-only file; `over` is how many."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
    try:
        os.lseek(fd, -over, os.SEEK_END)
        write_all(fd, data)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def lock(fd: int, *, path: Path) -> None:
    """Lock the file for this process alone; refuse it if another process has the lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PrivacyRefusal(
            f"{path}: expected no other writer, got {_holder(fd)}. Wait for it, or end it."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: expected a file system with locks, got {error.strerror}. Choose another."
        ) from error


def _holder(fd: int) -> str:
    """Name the process that holds the lock, by the system's table of locks."""
    inode = str(os.fstat(fd).st_ino)
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].split(":")[-1] == inode:
            return f"the process {fields[4]}"
    return "another process"
