"""Whether a user's own dataset class returns what the spec states, by its first records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dppipe.class_path import describe_failure
from dppipe.errors import RECORD_ERRORS, DppipeError, UsageError

LOOKED_AT = 100
"""How many records are read to find one that fits; usually the first does."""


def check_first_items(dataset: Any, *, name: str, input_shape: Sequence[int]) -> None:
    """Refuse a class whose every record shows a mistake; single bad records are allowed."""
    count = len(dataset)
    if count == 0:
        raise UsageError(f"data.class_path: expected records, got an empty {name}.")
    first: DppipeError | None = None
    for index in range(min(count, LOOKED_AT)):
        fault = _find_mistake(dataset, index, name=name, input_shape=tuple(input_shape))
        if fault is None:
            return
        first = first or fault
    if first is not None:
        raise first


def _find_mistake(
    dataset: Any, index: int, *, name: str, input_shape: tuple[int, ...]
) -> DppipeError | None:
    try:
        item = dataset[index]
    except RECORD_ERRORS as error:
        return UsageError(f"data.class_path: {name} failed: {describe_failure(error)}.")
    if not (isinstance(item, tuple | list) and len(item) == 2):
        return UsageError(
            f"data.class_path: expected items (input, target), got something else from {name}."
        )
    shape = tuple(getattr(item[0], "shape", ()))
    if shape != input_shape:
        return UsageError(
            f"data.input_shape: expected {list(shape)}, the shape of the inputs, "
            f"got {list(input_shape)}."
        )
    return None
