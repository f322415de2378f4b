"""Clippers: factors for every norm there can be, one example at a time, on any device, and nothing
kept between examples.

The core holds every clipper to its bound (`dppipe.engine.bounds`), so what fails here costs
accuracy, not privacy; it is named because it isn't what its author meant.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import torch
from torch import Tensor, nn

from dppipe.clipper_abilities import refusal, sensitivity
from dppipe.clipping.base import Clipper
from dppipe.engine import clipped_sum
from dppipe.engine.bounds import bounded_factors
from dppipe.engine.groups import bounds_tensor, make_groups
from dppipe.learners.sgd.sensitivity import noise_unit
from dppipe.plugin_kit.checks.clipper_cases import (
    HUGE,
    TINY,
    TOLERANCE,
    ask_factors,
    bounds_cases,
    judge_factors,
    mixed_norms,
    try_norms,
)
from dppipe.plugin_kit.checks.reductions import Reductions
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each
from dppipe.privacy.budget import Relation


def exercise(clipper: Clipper) -> Any:
    """Call everything that a run calls, on several batches; equal calls must give equal results."""
    found: list[Any] = []
    for _, bounds in bounds_cases(clipper):
        found += [
            bounds,
            ask_factors(clipper, mixed_norms(bounds), bounds),
            ask_factors(clipper, bounds.repeat(2, 1), bounds),
        ]
    return found


@check_each("clipping")
def groups_and_bounds(clipper: Clipper) -> Remark:
    """Every parameter has a group, and every group a bound > 0."""
    for label, bounds in bounds_cases(clipper):
        if not (bounds.isfinite() & (bounds > 0)).all():
            raise Fault(
                f"expected finite bounds > 0, got {bounds.tolist()} for {label}. Fix bounds()."
            )
    return None


@check_each("clipping")
def norms_of_zero(clipper: Clipper) -> Remark:
    """Norms of 0 get a factor from 0 to bound / norm."""
    return try_norms(clipper, (0.0,))


@check_each("clipping")
def tiny_norms(clipper: Clipper) -> Remark:
    """Tiny norms, 1e-30 to 1e-6, get one too."""
    return try_norms(clipper, TINY)


@check_each("clipping")
def ordinary_norms(clipper: Clipper) -> Remark:
    """Norms around the bound, other ones in each group, get one too."""
    for label, bounds in bounds_cases(clipper):
        judge_factors(
            ask_factors(clipper, mixed_norms(bounds), bounds),
            mixed_norms(bounds),
            bounds,
            label=label,
        )
    return None


@check_each("clipping")
def huge_norms(clipper: Clipper) -> Remark:
    """Huge norms, 1e6 to 1e30, get one too."""
    return try_norms(clipper, HUGE)


@check_each("clipping")
def norms_that_are_no_numbers(clipper: Clipper) -> Remark:
    """Norms that are inf or NaN get a factor of any size."""
    for _, bounds in bounds_cases(clipper):
        norms = torch.tensor([[torch.inf], [torch.nan]]) * torch.ones_like(bounds)
        ask_factors(clipper, norms, bounds)
        if bounded_factors(clipper, norms, bounds).any():
            raise Fault(
                "expected the core to drop an example whose norm is no number, got a factor > 0"
            )
    return "the core drops such an example whatever the factor"


@check_each("clipping")
def empty_batch(clipper: Clipper) -> Remark:
    """An empty batch gets no factors."""
    for label, bounds in bounds_cases(clipper):
        shape = tuple(bounded_factors(clipper, bounds.new_zeros(0, len(bounds)), bounds).shape)
        if shape != (0, len(bounds)):
            raise Fault(f"expected no factors, got shape {shape} for {label}")
    return None


@check_each("clipping")
def vmap_and_loop(clipper: Clipper) -> Remark:
    """Under vmap, each example gets what it gets alone."""
    for label, bounds in bounds_cases(clipper):
        norms = mixed_norms(bounds)
        alone = torch.stack([clipper.factors(row.clone(), bounds.clone()) for row in norms])
        if not torch.allclose(
            ask_factors(clipper, norms, bounds), alone, rtol=1e-5, equal_nan=True
        ):
            raise Fault(
                f"expected the same factors in a batch and alone, got others for {label}. "
                "Use no randomness and no state."
            )
    return None


@check_each("clipping")
def no_batch_statistics(clipper: Clipper) -> Remark:
    """Nothing is averaged over dimension 0, as there is one example."""
    coupled = False
    for _, bounds in bounds_cases(clipper):
        norms = mixed_norms(bounds)[7]  # above the bound, where a factor does something
        with Reductions() as reductions:
            factors = clipper.factors(norms.clone(), bounds.clone())
        if reductions.found:
            raise Fault(
                f"expected factors of one example [groups], got {reductions.found[0]} over "
                "dimension 0. There is no batch here: this mixes the example's groups. Leave it "
                "out, or write dim=-1 if that is meant."
            )
        for group in range(len(norms)):
            other = norms.clone()
            other[group] *= 3
            moved = (clipper.factors(other, bounds.clone()) != factors).nonzero().flatten().tolist()
            coupled |= any(index != group for index in moved)
    return "a group's factor follows the norms of the example's other groups" if coupled else None


@check_each("clipping")
def inputs_untouched(clipper: Clipper) -> Remark:
    """Norms and bounds are left as they are."""
    for _, bounds in bounds_cases(clipper):
        norms, given = mixed_norms(bounds)[0], bounds.clone()
        before = norms.clone()
        clipper.factors(norms, given)
        if not (torch.equal(norms, before) and torch.equal(given, bounds)):
            raise Fault(
                "expected norms and bounds as they were, got others: an operation works in "
                "place. Drop its underscore."
            )
    return None


@check_each("clipping")
def other_precisions(clipper: Clipper) -> Remark:
    """Factors come in float64 and bfloat16."""
    for dtype, tolerance in ((torch.float64, TOLERANCE), (torch.bfloat16, 0.05)):
        for label, bounds in bounds_cases(clipper):
            norms, given = mixed_norms(bounds).to(dtype), bounds.to(dtype)
            judge_factors(
                ask_factors(clipper, norms, given),
                norms,
                given,
                label=f"{label} in {dtype}",
                tolerance=tolerance,
            )
    return None


@check_each("clipping")
def meta_device(clipper: Clipper) -> Remark:
    """On the meta device, no value is looked at and no tensor made elsewhere."""
    for _, bounds in bounds_cases(clipper):
        found = ask_factors(clipper, mixed_norms(bounds).to("meta"), bounds.to("meta"))
        if found.device.type != "meta":
            raise Fault(
                f"expected factors beside the norms, got them on {found.device}. Make "
                "tensors with norms.new_tensor(...)."
            )
    return None


@check_each("clipping")
def sensitivity_is_enough(clipper: Clipper) -> Remark:
    """The sensitivity that it states is at least what its bounds imply."""
    refused = [
        relation for relation in get_args(Relation) if refusal(clipper, relation) is not None
    ]
    for _, bounds in bounds_cases(clipper):
        for relation in get_args(Relation):
            if relation not in refused:
                noise_unit(clipper, bounds.tolist(), relation)
    return f"it refuses {', '.join(refused)}" if refused else None


@check_each("clipping")
def one_record_moves_little(clipper: Clipper) -> Remark:
    """Through the engine, no record moves the sum by more than the sensitivity."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        batch = torch.randn(6, 3) * torch.tensor([0.0, 1e-12, 1.0, 1e6, 1e18, torch.inf])[:, None]
    groups = make_groups(clipper, dict(network.named_parameters()))
    bounds = bounds_tensor(clipper, groups, None, batch).tolist()
    stated = sensitivity(clipper, bounds, "zero_out")
    if clipper.needs == "projections":
        return "its norms are estimates: their failure is paid for in delta, not tried here"
    whole = clipped_sum(network, _loss, batch, clipper)
    for row in range(len(batch)):
        rest = clipped_sum(network, _loss, torch.cat([batch[:row], batch[row + 1 :]]), clipper)
        moved = math.sqrt(
            sum(
                float((whole.sums[name] - rest.sums[name]).double().square().sum())
                for name in whole.sums
            )
        )
        if not moved <= stated * (1 + TOLERANCE):
            raise Fault(
                f"expected one record to move the sum by at most {stated:g}, got {moved:g}. "
                "Use no state."
            )
    return f"{stated:g} with {len(groups.names)} group{'s' if len(groups.names) > 1 else ''}"


def _loss(network: nn.Module, batch: Tensor) -> Tensor:  # -> [B]
    outputs: Tensor = network(batch)
    return outputs.sum(1)
