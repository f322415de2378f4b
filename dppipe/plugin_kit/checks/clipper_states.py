"""Clippers that adapt, average or change coordinates: what they release, what they remember, and
which slots they choose.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from dppipe.clipper_abilities import (
    Adapts,
    Averages,
    KeepsState,
    ReleasesStatistics,
    State,
    first_state,
    next_state,
)
from dppipe.clipping.base import Clipper
from dppipe.engine.groups import make_groups
from dppipe.plugin_kit.checks.clipper_cases import MANY, bounds_cases, mixed_norms
from dppipe.plugin_kit.checks.memory import digest
from dppipe.plugin_kit.checks.table import Fault, Remark, check_each

BATCH = 256.0
"""An expected batch size."""


@check_each("clipping")
def statistics_are_bounded(clipper: Clipper) -> Remark:
    """If it releases statistics, each is from -1/2 to 1/2 for one example."""
    if not isinstance(clipper, ReleasesStatistics):
        return "it releases none"
    std = clipper.statistics_std(BATCH)
    if std is None:
        return "it releases none"
    if not 0 < std < float("inf"):
        raise Fault(
            f"expected finite noise > 0 on the statistics, got {std:g}. Fix statistics_std()."
        )
    for label, bounds in bounds_cases(clipper):
        norms = torch.cat(
            [mixed_norms(bounds), torch.zeros(1, len(bounds)), torch.full((1, len(bounds)), 1e30)]
        )
        found = torch.func.vmap(clipper.statistics, in_dims=(0, None))(
            norms.clone(), bounds.clone()
        )
        if found.dim() != 2 or not (found.abs() <= 0.5).all():
            raise Fault(
                f"expected statistics [n] from -1/2 to 1/2, got others for {label}. The "
                "core cuts them off there."
            )
    return None


@check_each("clipping")
def state_comes_and_goes(clipper: Clipper) -> Remark:
    """If it has a state, an update gives a new one, with bounds > 0, that a checkpoint keeps."""
    if not isinstance(clipper, (Adapts, KeepsState)):
        return "it has none"
    groups = make_groups(clipper, MANY)
    state = first_state(clipper, groups.sizes)
    for mean in (-0.5, 0.0, 0.5, 10.0, -10.0):
        before = digest(state)
        after = next_state(clipper, state, _released(clipper, len(groups.names), mean=mean))
        if digest(state) != before:
            raise Fault(
                "expected update() to leave the state that it is given, got another. Make "
                "a new one."
            )
        bounds = clipper.bounds(after)
        values = [bounds] if isinstance(bounds, (int, float)) else list(bounds)
        if not all(0 < value < float("inf") for value in values):
            raise Fault(
                f"expected finite bounds > 0 after released means of {mean:g}, got "
                f"{values}. Keep them within limits."
            )
        if digest(_saved(after)) != digest(after):
            raise Fault(
                "expected a state of numbers, text, tuples, dicts and tensors, got "
                "another: a checkpoint would change it."
            )
        state = after
    return None


@check_each("clipping")
def slots_by_index_alone(clipper: Clipper) -> Remark:
    """If it averages examples, a record's slot follows its own index alone."""
    if not isinstance(clipper, Averages):
        return "it averages none"
    import numpy

    indices = numpy.arange(1000)
    slots = clipper.slots(indices, expected_batch_size=BATCH)
    if not numpy.array_equal(clipper.slots(indices[::3], expected_batch_size=BATCH), slots[::3]):
        raise Fault(
            "expected the slot of a record to stay when others are left out, got another. "
            "Use its index alone."
        )
    return None


def _released(clipper: Clipper, groups: int, *, mean: float) -> dict[str, Any]:
    """Make up what a step could have released."""
    count = 0
    if isinstance(clipper, ReleasesStatistics) and clipper.statistics_std(BATCH) is not None:
        count = len(clipper.statistics(torch.ones(groups), torch.ones(groups)))
    gradient = {name: torch.full(parameter.shape, 0.01 * mean) for name, parameter in MANY.items()}
    return {
        "means": [mean] * count,
        "gradient": gradient,
        "noise_std": 0.01,
        "expected_batch_size": BATCH,
    }


def _saved(state: State) -> Any:
    """Return the state as a checkpoint restores it."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    file.seek(0)
    return torch.load(file, weights_only=True)
