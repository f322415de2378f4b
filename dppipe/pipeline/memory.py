"""What doesn't fit into memory is a matter of the spec: it is named by its block, and never shown as an internal error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dppipe.errors import UsageError


@contextmanager
def fitting_memory(block: str) -> Iterator[None]:
    """Name the block of a spec that asks for more memory than there is."""
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError) as error:
        # torch has no class of its own for this: its allocator and its arithmetic of sizes raise RuntimeError
        if isinstance(error, RuntimeError) and not any(
            word in str(error) for word in ("allocate", "overflow")
        ):
            raise
        raise UsageError(
            f"{block}: expected what fits into memory, got more. Make it smaller."
        ) from error
