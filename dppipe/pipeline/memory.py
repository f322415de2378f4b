"""A model or dataset that doesn't fit into memory is a fault of the spec, not of the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dppipe.errors import UsageError


@contextmanager
def fitting_memory(block: str) -> Iterator[None]:
    """Name the block of a spec that needs more memory than there is."""
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError) as error:
        if not _is_memory_error(error):
            raise
        raise UsageError(f"{block}: not enough memory for it. Make it smaller.") from error


def _is_memory_error(error: Exception) -> bool:
    """Return whether an error is about memory.

    torch has no class for this: its allocator and its arithmetic of sizes raise RuntimeError.
    """
    if not isinstance(error, RuntimeError):
        return True
    return "allocate" in str(error) or "overflow" in str(error)
