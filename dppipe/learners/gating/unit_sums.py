"""Sums over units of what a function returns for each: clipped one by one, whatever it returns.

This is how a plugin learner's values are bounded: the gate calls its function with one unit at a
time, and adds what is left after clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress

import torch
from torch import Tensor

from dppipe.errors import RECORD_ERRORS, PrivacyRefusal, UsageError
from dppipe.learners.records.faults import is_machine_fault
from dppipe.learners.records.training_records import Unit

UnitValue = Callable[[Unit], Tensor]
"""Returns what one unit contributes."""

_LEAST_BOUND = 1e-100
_LARGEST_BOUND = 1e100
"""Between these, no norm that matters overflows or vanishes in float64."""
_SCORE_BITS = 24
"""How finely scores are told apart: a bound has at least half of 2^24 parts."""
SUM_SLACK = 2.0**-22
"""What rounding may add to how far one unit moves a sum, relative to the bound."""


def clipped_unit_sum(
    units: Iterable[Unit],
    value: UnitValue,
    *,
    shape: tuple[int, ...],
    bound: float,
    order: int = 2,
) -> Tensor:  # -> [n]
    """Return the flat sum of all units' values, each clipped to the bound.

    Guarantee: one unit's presence moves the sum of up to 2^29 units by at most
    `bound (1 + SUM_SLACK)`, in the norm of this order. A value that isn't finite, has another
    shape, or whose function raises counts as zero.

    Rounding: were values added one after another, those that follow a unit would be rounded in
    another way with it than without it, each time. So each is cut towards zero into two multiples
    of powers of two, whose sums are exact. They are rounded once, when both are added, by 2^-53 of
    at most 2^29 bounds; a unit's own clipping by less, for up to a million numbers.
    """
    check_bound(bound)
    total = torch.zeros(math.prod(shape), dtype=torch.float64)
    rest = torch.zeros_like(total)
    for unit in units:
        flat = _value(value, unit, shape)
        norm = float(torch.linalg.vector_norm(flat, order))
        if math.isfinite(norm):
            # In this order: bound / norm alone may be too small for a float64 to hold exactly.
            clipped = flat if norm <= bound else flat / norm * bound
            coarse = cut_scores(clipped, bound)
            total += coarse
            rest += cut_scores(clipped - coarse, bound * 2.0**-_SCORE_BITS)
    return total + rest


def clamped_unit_sum(
    units: Iterable[Unit], value: UnitValue, *, candidates: int, bound: float
) -> Tensor:  # -> [candidates]
    """Return the sum of all units' scores, each clamped to [-bound, bound].

    Guarantee: one unit's presence moves each score by at most `bound`, exactly: scores are cut to
    multiples of a power of two, so that sums of up to 2^29 units have no rounding.
    """
    check_bound(bound)
    total = torch.zeros(candidates, dtype=torch.float64)
    for unit in units:
        scores = torch.nan_to_num(_value(value, unit, (candidates,)), nan=0.0)
        total += cut_scores(scores.clamp(-bound, bound), bound)
    return total


def cut_scores(scores: Tensor, bound: float) -> Tensor:
    """Return float64 scores cut towards zero, to multiples of a power of two.

    Guarantee: where no score exceeds the bound, sums of up to 2^29 of them are exact in any order.
    """
    part = 2.0 ** (math.frexp(bound)[1] - _SCORE_BITS)
    return torch.trunc(scores / part) * part


def check_bound(bound: float) -> None:
    """Refuse a bound that noise can't be scaled to."""
    if not _LEAST_BOUND <= bound <= _LARGEST_BOUND:
        raise PrivacyRefusal(
            f"gate: expected a bound from {_LEAST_BOUND:g} to {_LARGEST_BOUND:g}, got {bound!r}. "
            "Nothing was charged."
        )


def _value(value: UnitValue, unit: Unit, shape: tuple[int, ...]) -> Tensor:  # -> [n]
    """Return what a function says of one unit; zeros where it says nothing that can be used."""
    flat = torch.zeros(math.prod(shape), dtype=torch.float64)
    try:
        found = torch.as_tensor(value(unit)).detach()
        if tuple(found.shape) == tuple(shape) and not found.is_complex():
            # A copy on the host: what isn't plain numbers raises here, and nowhere later.
            flat = torch.zeros_like(flat).copy_(found.reshape(-1))
    except RECORD_ERRORS as error:
        if is_machine_fault(error):
            raise
    return flat


def rehearse_value(value: UnitValue, made_up: Unit, shape: tuple[int, ...]) -> None:
    """Try a function on made-up units, so that a mistake in it isn't taken for a bad record.

    It is called with a unit, with another one, and with the first again: a function that keeps
    something of the units it has seen returns another value then, and is refused.
    """
    found = _rehearsed(value, made_up)
    if tuple(found.shape) != tuple(shape):
        raise UsageError(
            f"learner: expected a value of shape {tuple(shape)} for each unit, got "
            f"{tuple(found.shape)} for a made-up one. Fix the learner."
        )
    with suppress(*RECORD_ERRORS):  # it may be right to refuse a unit as odd as this one
        value(Unit(made_up.inputs.flip(0) * 3, made_up.targets.flip(0)))
    again = _rehearsed(value, made_up)
    if not torch.equal(torch.nan_to_num(found), torch.nan_to_num(again)):
        raise UsageError(
            "learner: expected the same value for the same made-up unit, got another one when it "
            "came again. One unit's value may follow from that unit alone: keep nothing between "
            "calls, and draw random numbers beforehand."
        )


def _rehearsed(value: UnitValue, made_up: Unit) -> Tensor:
    try:
        unit = Unit(made_up.inputs.clone(), made_up.targets.clone())
        return torch.as_tensor(value(unit)).detach().clone()
    except RECORD_ERRORS as error:
        raise UsageError(
            f"learner: expected a function that works on a made-up unit of {len(made_up.inputs)} "
            f"records, got {type(error).__name__}: {error}. Fix the learner."
        ) from error
