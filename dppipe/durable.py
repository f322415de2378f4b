"""Names of new files that survive a power cut: syncing a file doesn't sync the directory that names
it.
"""

from __future__ import annotations

import os
from pathlib import Path

from dppipe.errors import DppipeError


def sync_names(path: Path) -> None:
    """Make the name of a new file durable, and those of the directories above it, which may be as
    new.
    """
    for directory in path.absolute().parents:
        try:
            sync(directory)
        except PermissionError:
            return  # not this user's directory, so not a new one
        except OSError as error:
            message = f"expected a directory that can be synced to disk, got {error.strerror}"
            raise DppipeError(f"{directory}: {message}.") from error


def sync(path: Path) -> None:
    """Wait until the disk has a file's bytes, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
