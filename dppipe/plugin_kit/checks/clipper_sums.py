"""Clippers in the engine: how far one record moves the clipped sum, after any releases and for any
values.

The loss of a record is the inner product of the weights with the record, so a record is its own
gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy
import torch
from torch import Tensor, nn

from dppipe.clipper_abilities import (
    Adapts,
    Averages,
    first_state,
    in_state,
    next_state,
    refusal,
    sensitivity,
    statistics_std,
)
from dppipe.clipping.base import Clipper
from dppipe.engine import Engine
from dppipe.learners.sgd.sensitivity import add_statistics, count_statistics, noise_unit
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each
from dppipe.privacy.budget import Relation

WIDTH = 9
"""The numbers in a record."""
BATCH = 8.0
"""The expected batch size."""
RELATIONS: tuple[Relation, ...] = get_args(Relation)
FINITE = (0.0, 5e-324, 1e-300, 1e-30, 1e-12, 1e-3, 1.0, -1.0, 50.0, 1e12, 1e30, -1e150)
EXTREMES = (*FINITE, math.inf, -math.inf, math.nan)
"""Values that a gradient may hold, ordinary ones among them."""


class _Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.float64))


class Weights(nn.Module):
    """Three layers of 3, 2 and 1 weights and a bias each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _Layer(3)
        self.second = _Layer(2)
        self.third = _Layer(1)


def inner_product(model: nn.Module, batch: Tensor) -> Tensor:  # [B, WIDTH] -> [B]
    """Return losses whose gradients are the rows of the batch."""
    weights = torch.cat([parameter.flatten() for parameter in model.parameters()])
    return (batch * weights).sum(1)


def clipped(
    clipper: Clipper, records: Mapping[int, Tensor], state: Any = None
) -> Tensor:  # {index: [WIDTH]} -> [WIDTH]
    """Return the clipped sum of the records, averaged in units where the clipper averages."""
    engine = Engine(Weights(), inner_product, clipper, mode="functional")
    if state is None:
        state = first_state(clipper, engine.groups.sizes)
    sums = engine.zeros()
    if records:
        units = None
        if isinstance(clipper, Averages):
            indices = numpy.array(list(records))
            units = torch.from_numpy(clipper.slots(indices, expected_batch_size=BATCH))
        batch = torch.stack(list(records.values()))
        engine.accumulate(
            batch, sums, bounds=engine.bounds(state), units=units, clipper=in_state(clipper, state)
        )
    return torch.cat([value.flatten() for value in sums.values()])


def states(clipper: Clipper) -> Iterator[Any]:
    """Yield the first state and some that releases can lead to, extreme ones among them."""
    engine = Engine(Weights(), inner_product, clipper)
    state = first_state(clipper, engine.groups.sizes)
    yield state
    if not isinstance(clipper, Adapts):
        return  # releases don't move it
    generator = torch.Generator().manual_seed(1)
    for mean in (-0.5, 0.5, 40.0, -40.0, math.nan, math.inf):
        gradient = {}
        for name, parameter in engine.parameters.items():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            huge = parameter.detach() + 1e9
            gradient[name] = drawn * 10**mean if abs(mean) < 1 else huge
        released = {
            "means": (mean,) * len(engine.groups.names),
            "gradient": gradient,
            "noise_std": 0.1,
            "expected_batch_size": BATCH,
        }
        state = next_state(clipper, state, released)
        yield state


def neighbour(
    records: Mapping[int, Tensor], index: int, other: Tensor, relation: str
) -> dict[int, Tensor]:
    """Return a dataset that differs in one record: it is another, or contributes nothing."""
    changed = dict(records)
    if relation == "replace_one":
        changed[index] = other
    else:
        del changed[index]
    return changed


def judge_sums(
    clipper: Clipper,
    state: Any,
    sums: tuple[Tensor, Tensor],  # [WIDTH] each
    relation: Relation,
) -> None:
    """Raise a Fault unless the clipped sums of two neighbours are within the stated sensitivity."""
    bounds = Engine(Weights(), inner_product, clipper).bounds(state)
    if not bool((bounds.isfinite() & (bounds > 0)).all()):
        raise Fault(f"expected finite bounds > 0 after any releases, got {bounds.tolist()}.")
    stated = sensitivity(clipper, bounds.double().tolist(), relation)
    first, second = sums
    if not bool(first.isfinite().all()):
        raise Fault("expected a finite clipped sum of any gradients, got another.")
    moved = float((first - second).norm())
    if not moved <= stated * (1 + 1e-6):
        raise Fault(
            f"expected one record to move the sum by at most {stated:g} under {relation}, got "
            f"{moved:g}."
        )


@check_each("clipping")
def extreme_records(clipper: Clipper) -> Remark:
    """No record of any values moves the sum by more than the sensitivity, after any releases."""
    if clipper.needs == "projections":
        return "its norms are estimates: their failure is paid for in delta, not tried here"
    for shift, state in enumerate(states(clipper)):
        records = _extreme_records(shift)
        whole = clipped(clipper, records, state)
        for index in (shift % 6, (shift + 1) % 6, 6):
            taken_out = clipped(clipper, neighbour(records, index, whole, "zero_out"), state)
            turned = neighbour(records, index, -records[index], "replace_one")
            replaced = clipped(clipper, turned, state)
            for relation in RELATIONS:
                if refusal(clipper, relation) is None:
                    other = replaced if relation == "replace_one" else taken_out
                    judge_sums(clipper, state, (whole, other), relation)
    return None


@check_each("clipping")
def physical_batches_add_up(clipper: Clipper) -> Remark:
    """An empty batch sums to 0, and physical batches add up to the whole batch."""
    if bool(clipped(clipper, {}).any()):
        raise Fault("expected a sum of 0 for an empty batch, got another.")
    if isinstance(clipper, Averages) or clipper.needs == "projections":
        return "only the empty batch: it averages examples or draws directions"
    generator = torch.Generator().manual_seed(0)
    records = {}
    for index in range(6):
        drawn = torch.randn(WIDTH, generator=generator, dtype=torch.float64)
        records[index] = drawn * 3**index
    for state in states(clipper):
        total = torch.zeros(WIDTH, dtype=torch.float64)
        for index, record in records.items():
            total += clipped(clipper, {index: record}, state)
        if not torch.allclose(clipped(clipper, records, state), total, rtol=1e-7, atol=1e-7):
            raise Fault("expected the sum of single records to be that of the batch, got another.")
    return None


@check_each("clipping")
def noise_is_enough(clipper: Clipper) -> Remark:
    """After any releases, noise is scaled to at least what the bounds imply."""
    for state in states(clipper):
        bounds = Engine(Weights(), inner_product, clipper).bounds(state).tolist()
        whole = math.hypot(*bounds)
        for relation in RELATIONS:
            unit = noise_unit(clipper, bounds, relation)
            # Accountants double the sensitivity under replace_one, so a unit of noise is half of it
            # there.
            doubled = 2 if relation == "replace_one" else 1
            averages = isinstance(clipper, Averages)
            least = whole * 2 if averages and doubled == 1 else whole
            stated = sensitivity(clipper, bounds, relation)
            if unit < least * (1 - 1e-6) or not math.isclose(stated, unit * doubled, rel_tol=1e-6):
                raise Fault(
                    f"expected noise for a sensitivity of {stated:g} under {relation}, got "
                    f"{unit:g}."
                )
    return None


@check_each("clipping")
def statistics_move_little(clipper: Clipper) -> Remark:
    """One record of any norm moves n statistics by at most sqrt(n) / 2."""
    if statistics_std(clipper, expected_batch_size=BATCH) is None:
        return "it releases none"
    for state in states(clipper):
        bounds = Engine(Weights(), inner_product, clipper).bounds(state)
        count = count_statistics(clipper, bounds)
        for value in (0.0, 1e-9, 0.4, 1.0, 3.0, 1e30, math.inf, math.nan):
            into = torch.zeros(count)
            norms = torch.full((1, len(bounds)), value)
            add_statistics(in_state(clipper, state), norms, bounds, into=into, units=None)
            moved = float(into.norm())
            if not moved <= math.sqrt(count) / 2 + 1e-6:
                raise Fault(
                    f"expected a norm of {value:g} to move {count} statistics by at most "
                    f"{math.sqrt(count) / 2:g}, got {moved:g}."
                )
    return None


def _extreme_records(shift: int) -> dict[int, Tensor]:
    """Return seven records: of any and of finite values in turn, the last of ordinary ones."""
    records = {}
    for index in range(6):
        values = FINITE if index % 2 else EXTREMES
        row = []
        for place in range(WIDTH):
            row.append(values[(shift + index * (place + 1) + place // 3) % len(values)])
        records[index] = torch.tensor(row, dtype=torch.float64)
    records[6] = torch.linspace(-5, 5, WIDTH, dtype=torch.float64) + shift
    return records
