"""Canaries: made-up records whose gradients are as large, small or odd as records can be.

A clipper that skips a layer shows only where that layer's gradient exceeds what clipping leaves it.
So beside scaled inputs there is one canary for each parameter, found by gradient ascent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dppipe.audit.probes.made_up_records import Columns, Row
from dppipe.errors import RECORD_ERRORS

if TYPE_CHECKING:
    from dppipe.engine.contracts import PerSampleLoss

SCALES = (1e-3, 1.0, 20.0, -20.0, 1e3, 1e6)
"""What made-up inputs are multiplied by."""
_FINER = tuple(10 ** (place / 12) for place in range(-24, 25) if place % 12)
"""Scales in small steps from a hundredth to a hundred."""
_ASCENT_STEPS = 50
_STEP_LENGTH = 0.2
"""How far one step of ascent goes, relative to the input's norm."""
_MOST_SECONDS = 20.0
"""How long ascents may take in all; later parameters go without one."""


@dataclass(frozen=True)
class Canary:
    """A made-up record with a name."""

    name: str
    row: Row


@dataclass(frozen=True)
class Evaluated:
    """A model as canaries are found for it."""

    columns: Columns
    examples: Row
    """Made-up examples, one tensor for each column."""
    network: nn.Module
    loss: PerSampleLoss
    """The loss of each example."""
    parameters: Mapping[str, Tensor]


def make_canaries(subject: Evaluated) -> list[Canary]:
    """Return canaries for a model: scaled, zero, not finite, and one for each parameter."""
    columns = subject.columns
    row = _with_worst_target(subject, tuple(column[:1] for column in subject.examples))
    found = []
    for scale in SCALES:
        changed = scaled_rows(columns, row, scale)
        found.append(Canary(f"inputs x {scale:g}", _with_worst_target(subject, changed)))
    for scale in _FINER:  # a clipper may leave most to a gradient of one size
        found.append(Canary(f"inputs x {scale:.3g}", scaled_rows(columns, row, scale)))
    found.append(Canary("zero", scaled_rows(columns, row, 0.0)))
    for value in (math.nan, math.inf):
        found.append(Canary(f"{value}", scaled_rows(columns, row, value, fill=True)))
    return found + _ascents(subject, row)


def scaled_rows(columns: Columns, row: Row, scale: float, *, fill: bool = False) -> Row:
    """Return a row whose floating-point inputs are multiplied by a number, or set to it."""
    changed = []
    for place, column in enumerate(row):
        if place >= columns.inputs or not column.is_floating_point():
            changed.append(column.clone())
        else:
            changed.append(torch.full_like(column, scale) if fill else column * scale)
    return tuple(changed)


def _with_worst_target(subject: Evaluated, row: Row) -> Row:
    """Return a row with that one of the made-up targets which has the largest loss."""
    inputs = subject.columns.inputs
    targets = subject.examples[inputs:]
    if not targets:
        return row
    count = len(targets[0])
    repeated = [column.expand(count, *column.shape[1:]).clone() for column in row[:inputs]]
    try:
        with torch.no_grad():
            losses = subject.loss(subject.network, subject.columns.batch([*repeated, *targets]))
    except RECORD_ERRORS:
        return row
    worst = int(torch.nan_to_num(losses.flatten(), nan=-math.inf).argmax())
    return (*row[:inputs], *(target[worst : worst + 1].clone() for target in targets))


def _ascents(subject: Evaluated, row: Row) -> list[Canary]:
    """Return the canaries of gradient ascent, for as many parameters as time allows."""
    found: list[Canary] = []
    place = _float_input(subject, row)
    if place is None:
        return found
    until = time.monotonic() + _MOST_SECONDS
    for name, parameter in subject.parameters.items():
        if time.monotonic() > until:
            break
        climbed = _climb(subject, row, place, parameter)
        if climbed is not None:
            found.append(Canary(f"ascent on {name}", climbed))
    return found


def _float_input(subject: Evaluated, row: Row) -> int | None:
    for place in range(subject.columns.inputs):
        if row[place].is_floating_point():
            return place
    return None


def _climb(subject: Evaluated, row: Row, place: int, parameter: Tensor) -> Row | None:
    """Return an input with a large gradient of one parameter; None if none can be computed.

    Steps have a fixed length relative to the input, so the input may grow.
    """
    moved = row[place].clone()
    for _ in range(_ASCENT_STEPS):
        start = moved.detach().requires_grad_()
        direction = _slope(subject, (*row[:place], start, *row[place + 1 :]), start, parameter)
        if direction is None:
            return None
        norm = float(direction.norm())
        if not 0 < norm < math.inf:
            break
        length = _STEP_LENGTH * max(float(start.detach().norm()), 1.0)
        moved = start.detach() + direction * (length / norm)
    return (*row[:place], moved, *row[place + 1 :])


def _slope(subject: Evaluated, row: Row, start: Tensor, parameter: Tensor) -> Tensor | None:
    try:
        with torch.enable_grad():
            loss = subject.loss(subject.network, subject.columns.batch(row)).sum()
            (gradient,) = torch.autograd.grad(loss, parameter, create_graph=True)
            (slope,) = torch.autograd.grad(gradient.norm(), start)
    except RECORD_ERRORS:  # a layer without second derivatives, or a parameter without a gradient
        return None
    return slope
