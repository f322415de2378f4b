"""Which rows can be stacked: those of one structure, shape and type."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy
from torch import Tensor


def row_kind(row: Any, *, collated: bool) -> Hashable:
    """Return a value that is equal for rows that can be stacked with each other."""
    if isinstance(row, Tensor):
        if collated and (not row.dim() or row.shape[0] != 1):
            return object()
        return tuple(row.shape), row.dtype
    if collated and not isinstance(row, (Mapping, tuple, list)):
        return object()
    if isinstance(row, (numpy.ndarray, numpy.generic)):
        return "array", row.shape, row.dtype.str
    if isinstance(row, (bool, int, float)):
        return type(row).__name__
    if isinstance(row, Mapping):
        named = ((str(name), row_kind(value, collated=collated)) for name, value in row.items())
        return type(row), tuple(named)
    if isinstance(row, (tuple, list)):
        return type(row), tuple(row_kind(value, collated=collated) for value in row)
    return object()


def alike(rows: list[Any]) -> bool:
    """Return whether rows are tuples or dictionaries of tensors and numbers of one kind.

    This is quicker than comparing their kinds.
    """
    first = rows[0]
    kinds = set(map(type, rows))
    if len(kinds) > 1:
        return False
    if isinstance(first, dict):
        names = first.keys()
        if any(row.keys() != names for row in rows):
            return False
        return all(_leaves_alike([row[name] for row in rows]) for name in names)
    if isinstance(first, (tuple, list)):
        if any(len(row) != len(first) for row in rows):
            return False
        return all(map(_leaves_alike, zip(*rows, strict=True)))
    return False


def _leaves_alike(leaves: Sequence[Any]) -> bool:
    kinds = set(map(type, leaves))
    if kinds == {Tensor}:
        return len({(leaf.shape, leaf.dtype) for leaf in leaves}) == 1
    return len(kinds) == 1 and kinds <= {int, float, bool}
