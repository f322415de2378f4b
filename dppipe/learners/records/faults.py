"""Faults of the machine, unlike those of a record, end a run: no record has caused them."""

from __future__ import annotations

from types import TracebackType

import torch

from dppipe.errors import RECORD_ERRORS, PartlyAdded

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def is_machine_fault(error: BaseException) -> bool:
    """Return whether memory has run out, or an error came where no record could have caused it.

    A run that ends by it says so in its statement: such an end is outside the guarantee.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError, PartlyAdded)):
        return True
    return isinstance(error, RuntimeError) and any(text in _text(error) for text in _OUT_OF_MEMORY)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except RECORD_ERRORS:  # a user's own class of errors, whose text can't be made
        return ""


class SuppressRecordErrors:
    """Suppresses errors of a record in its block.

    Guarantee: no error that a record can cause leaves the block. Faults of the machine do.
    """

    def __enter__(self) -> None:
        """Start the block."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Suppress an error of a record."""
        return isinstance(error, RECORD_ERRORS) and not is_machine_fault(error)
