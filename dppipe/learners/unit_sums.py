"""Sums over units of what a function returns for each: clipped one by one, whatever it returns.

This is how a plugin learner's values are bounded: the gate calls its function with one unit at a
time, and adds what is left after clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from dppipe.errors import RECORD_ERRORS, PrivacyRefusal, UsageError
from dppipe.learners.records.faults import is_machine_fault
from dppipe.learners.training_records import Unit

UnitValue = Callable[[Unit], Tensor]
"""Returns what one unit contributes."""


def clipped_unit_sum(
    units: Iterable[Unit],
    value: UnitValue,
    *,
    shape: tuple[int, ...],
    bound: float,
    order: int = 2,
) -> Tensor:  # -> [n]
    """Return the flat sum of all units' values, each clipped to the bound.

    Guarantee: one unit moves the sum by at most `bound`, in the norm of this order. A value that
    isn't finite, has another shape, or whose function raises counts as zero.
    """
    _refuse_bound(bound)
    total = torch.zeros(math.prod(shape), dtype=torch.float64)
    for unit in units:
        flat = _value(value, unit, shape)
        if flat is not None:
            norm = float(torch.linalg.vector_norm(flat, order))
            if math.isfinite(norm):
                total += flat * min(1.0, bound / norm) if norm > 0 else flat
    return total


def clamped_unit_sum(
    units: Iterable[Unit], value: UnitValue, *, candidates: int, bound: float
) -> Tensor:  # -> [candidates]
    """Return the sum of all units' scores, each clamped to [-bound, bound].

    Guarantee: one unit moves each score by at most `bound`.
    """
    _refuse_bound(bound)
    total = torch.zeros(candidates, dtype=torch.float64)
    for unit in units:
        flat = _value(value, unit, (candidates,))
        if flat is not None:
            total += torch.nan_to_num(flat, nan=0.0).clamp(-bound, bound)
    return total


def _value(value: UnitValue, unit: Unit, shape: tuple[int, ...]) -> Tensor | None:
    """Return what a function says of one unit, as a flat float64 tensor of its own."""
    try:
        found = torch.as_tensor(value(unit)).detach()
        if tuple(found.shape) != tuple(shape):
            return None
        return found.to(torch.float64).flatten().clone()
    except RECORD_ERRORS as error:
        if is_machine_fault(error):
            raise
        return None


def _refuse_bound(bound: float) -> None:
    if not 0 < bound < math.inf:
        raise PrivacyRefusal(f"gate: expected a finite bound > 0, got {bound!r}.")


def rehearse_value(value: UnitValue, made_up: Unit, shape: tuple[int, ...]) -> None:
    """Try a function on a made-up unit, so that a mistake in it isn't taken for a bad record."""
    try:
        found = torch.as_tensor(value(made_up))
    except Exception as error:
        raise UsageError(
            f"learner: expected a function that works on a made-up unit of {len(made_up.inputs)} "
            f"records, got {type(error).__name__}: {error}. Fix the learner."
        ) from error
    if tuple(found.shape) != tuple(shape):
        raise UsageError(
            f"learner: expected a value of shape {tuple(shape)} for each unit, got "
            f"{tuple(found.shape)} for a made-up one. Fix the learner."
        )
