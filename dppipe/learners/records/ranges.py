"""Declared ranges of integers: a record outside contributes nothing.

A device couldn't recover from an index that is out of range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset


def check_ranges(row: Any, ranges: Any) -> None:
    """Raise a ValueError where an integer lies outside its range."""
    if isinstance(ranges, range):
        values = torch.as_tensor(row)
        if not values.numel():
            return
        if int(values.min()) < ranges.start or int(values.max()) >= ranges.stop:
            raise ValueError("a record outside its declared range")
    elif isinstance(ranges, Mapping):
        for name, inner in ranges.items():
            check_ranges(row[name], inner)
    elif isinstance(ranges, (tuple, list)):
        for value, inner in zip(row, ranges, strict=True):
            check_ranges(value, inner)


def tensors_in_range(dataset: TensorDataset, ranges: Any) -> NDArray[numpy.bool_]:  # [records]
    """Return which records of a dataset in memory lie in their declared ranges."""
    inside = torch.ones(len(dataset), dtype=torch.bool)
    for tensor, limits in zip(dataset.tensors, ranges, strict=True):
        if isinstance(limits, range):
            rows = tensor.flatten(1) if tensor.dim() > 1 else tensor[:, None]
            inside &= ((rows >= limits.start) & (rows < limits.stop)).all(1)
    return inside.numpy()
