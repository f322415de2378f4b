"""The records of a run as rows of bounded norm: what linear learners compute with.

Everything here is private until it has passed the gate. Read next: `row_bounds.py`, how a row is
bounded; `feature_map.py`, where the features of a frozen network come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.learners.linear.row_bounds import (
    Scale,
    bias_coordinate,
    bound_vectors,
    feature_factor,
)

if TYPE_CHECKING:
    from dppipe.learners.records.batch_reader import RecordBatch
    from dppipe.learners.records.training_records import TrainingRecords
    from dppipe.privacy.release import PublicFacts

_BATCH = 512
"""How many records are read at once; every batch has this many places."""

Features = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Returns features `[b, d]` of inputs `[b, ...]` and which places can be used, given those that
could be read.
"""


@dataclass(frozen=True)
class Rows:
    """Records that a linear learner computes with; they are not private.

    Guarantee: each row is a function of its own record and of public constants. The weights of one
    unit's rows sum to at most 1, up to the slack of `row_bounds.py`. A record that can't be used
    keeps its place, with a row of zeros, the target 0 and the weight 0. There are such places
    beyond the last record too: n is not the number of records.
    """

    inputs: Tensor
    """`[n, d]` float64, each row's norm at most `max_norm`; with a bias, its coordinate is the
    last."""
    targets: Tensor
    """`[n]` int64 class numbers (0 and 1 of a binary task), or `[n, outputs]` float64, unbounded,
    of a regression."""
    weights: Tensor
    """`[n]` float64: 1 / (number of usable records of its unit), and 0 for unusable records."""


def bounded_rows(
    records: TrainingRecords,
    facts: PublicFacts,
    *,
    max_norm: float,
    scale: Scale,
    bias: bool,
    features: Features | None = None,
) -> Rows:
    """Read all records as rows of bounded norm.

    Args:
        records: The training records, inside a gate's computation.
        facts: Shapes, the task and the number of outputs: classes never come from labels.
        max_norm: The bound X on each row's norm.
        scale: Whether longer vectors are shortened, or each gets the bound's length.
        bias: Whether a constant coordinate is appended inside the bound.
        features: What the rows are made of, where not of the flattened inputs.
    """
    batches = records.batches(facts, size=_BATCH)
    return rows_of(batches, max_norm=max_norm, scale=scale, bias=bias, features=features)


def rows_of(
    batches: Iterable[RecordBatch],
    *,
    max_norm: float,
    scale: Scale,
    bias: bool,
    features: Features | None = None,
) -> Rows:
    """Return the rows of records that were read in batches; there is at least one batch."""
    inputs: list[Tensor] = []
    targets: list[Tensor] = []
    usable: list[Tensor] = []
    owners: list[Tensor] = []
    for batch in batches:
        if features is None:
            vectors, fits = batch.inputs.flatten(1), batch.usable
        else:
            vectors, fits = features(batch.inputs, batch.usable)
        inputs.append(_rows(vectors, fits, max_norm=max_norm, scale=scale, bias=bias))
        targets.append(_without_unusable(batch.targets, fits))
        usable.append(fits)
        owners.append(batch.owners)
    weights = _weights(torch.cat(usable), torch.cat(owners))
    return Rows(torch.cat(inputs), torch.cat(targets), weights)


def _rows(vectors: Tensor, fits: Tensor, *, max_norm: float, scale: Scale, bias: bool) -> Tensor:
    # [b, d], [b] -> [b, d] or [b, d + 1]
    """Return bounded rows, with zeros at places that can't be used."""
    bounded = bound_vectors(_without_unusable(vectors, fits), max_norm=max_norm, scale=scale)
    if not bias:
        return bounded
    constant = fits.to(torch.float64) * bias_coordinate(max_norm)
    return torch.cat([bounded * feature_factor(bias=True), constant[:, None]], 1)


def _without_unusable(values: Tensor, fits: Tensor) -> Tensor:  # [b, ...], [b] -> [b, ...]
    shape = (-1, *(1,) * (values.dim() - 1))
    return torch.where(fits.view(shape), values, torch.zeros((), dtype=values.dtype))


def _weights(usable: Tensor, owners: Tensor) -> Tensor:  # [n], [n] -> [n]
    """Return 1 / (number of usable records of its unit) for each place, 0 for unusable ones."""
    counts = torch.bincount(owners[usable], minlength=int(owners.max()) + 1)
    return usable.to(torch.float64) / counts[owners].clamp_min(1)
