"""Freed memory is kept for the next step, where the host's allocator would give it back to the system after each.

A step frees all it has computed, and the next allocates it again. By default glibc returns large pieces to the system, and the
kernel hands them out again page by page, zeroed: about 5 % of a private step of a convolutional network and 12 % of one of a
transformer where it was measured. A process of our own keeps them instead, so it stays as large as its largest step.
"""

from __future__ import annotations

import ctypes
import os
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of glibc's <malloc.h>
_KEPT = 20 << 20
"""Bytes up to which one allocation comes from the kept memory: holes that larger ones leave there are too often left unused."""
_SETTINGS = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_MMAP_MAX_",
    "GLIBC_TUNABLES",
)


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory, unless the environment says how it should behave; give whether it was told."""
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _SETTINGS):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, _KEPT) and mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))
