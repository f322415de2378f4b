"""Faults of the machine, unlike those of a record, end a run: no record has caused them."""

from __future__ import annotations

import torch

from dppipe.errors import PartlyAdded

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def is_machine_fault(error: BaseException) -> bool:
    """Return whether memory has run out, or an error came where no record could have caused it.

    A run that ends by it says so in its statement: such an end is outside the guarantee.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError, PartlyAdded)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
