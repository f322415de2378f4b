"""The form of a batch of records: shapes and types that fit the task, and ranges of integers."""

from __future__ import annotations

import torch
from torch import Tensor

from dppipe.data.base import Data
from dppipe.plugin_kit.checks.table import Fault


def require_batch(data: Data, inputs: Tensor, targets: Tensor, *, what: str) -> None:
    """Refuse a batch whose shapes and types aren't those of the data's task."""
    shape = tuple(data.input_shape)
    got = f"{tuple(inputs.shape[1:])} {inputs.dtype}"
    if tuple(inputs.shape[1:]) != shape:
        raise Fault(f"expected {what} to have shape {shape}, got {got}.")
    if not inputs.is_floating_point() and data.ranges[0] is None:
        raise Fault(
            f"expected {what} to be floats, or integers whose range the property `ranges` states, "
            f"got {got}."
        )
    wanted = {
        "multiclass": (torch.int64, ()),
        "binary": (torch.float32, ()),
        "regression": (torch.float32, (data.outputs,)),
        "tagging": (torch.int64, shape[:1]),
    }
    dtype, size = wanted[data.task]
    if (targets.dtype, tuple(targets.shape[1:])) != (dtype, size):
        got = f"{targets.dtype} of shape {tuple(targets.shape[1:])}"
        raise Fault(f"expected {data.task} targets to be {dtype} of shape {size}, got {got}.")


def within_range(inputs: Tensor, allowed: range) -> bool:
    """Tell whether all integers are within a range."""
    return bool(((inputs >= allowed.start) & (inputs < allowed.stop)).all())
