"""The estimates of all blocks, each bounded: whatever an estimator does, it stays in a public ball.

Estimates are differences from an origin: what the estimator has where there is no record. That is a
public constant: zero weights of a linear model, the first weights of a network. A block without
usable records, one whose training fails, and one whose result isn't finite stand at the origin, so
no block is ever left out: how many failed would be a release of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from dppipe.learners.blocks.reading import read_blocks
from dppipe.learners.linear.row_bounds import bound_vectors
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced

if TYPE_CHECKING:
    from dppipe.learners.blocks.reading import Block
    from dppipe.learners.job import Job


class Estimator(Protocol):
    """What is trained on each block; it keeps nothing between blocks."""

    @property
    def size(self) -> int:
        """The number of weights."""
        ...

    def estimate(self, block: Block) -> Tensor:
        """Return the weights `[size]` of one block, which isn't empty, less those of the origin."""
        ...

    def set_weights(self, moved: Tensor) -> None:
        """Set the module to the weights of the origin plus these differences `[size]`."""
        ...


def sum_in_ball(job: Job, estimator: Estimator, *, blocks: int, radius: float) -> Tensor:
    """Return the sum `[size]` of all estimates, each projected to the ball of this radius.

    Guarantee: one unit is in one block, and no estimate's norm is above the radius. So a change of
    one unit moves the sum by at most `2 radius (1 + blocks^2 2^-53)`: each of two sums of so many
    vectors is off by at most `blocks (blocks - 1) 2^-53 radius` in float64 (Higham 2002, 4.2).
    """
    total = torch.zeros(estimator.size, dtype=torch.float64)
    for estimate in _estimates(job, estimator, blocks=blocks):
        total += bound_vectors(estimate, max_norm=radius, scale="clip")
    return total


def table_of(job: Job, estimator: Estimator, *, blocks: int) -> Tensor:  # -> [blocks, size]
    """Return the estimate of each block as a row; one unit changes one row at most."""
    return torch.stack(list(_estimates(job, estimator, blocks=blocks)))


def _estimates(job: Job, estimator: Estimator, *, blocks: int) -> Iterator[Tensor]:
    for block in read_blocks(job.records, job.facts, count=blocks):
        yield estimate_or_origin(estimator, block)


def estimate_or_origin(estimator: Estimator, block: Block) -> Tensor:  # -> [size] float64
    """Return a block's finite estimate; zeros, which is the origin, where there is none."""
    origin = torch.zeros(estimator.size, dtype=torch.float64)
    if not len(block.inputs):
        return origin
    with silenced(), SuppressRecordErrors():
        found = estimator.estimate(block).detach().to(torch.float64)
        if found.shape == origin.shape and bool(found.isfinite().all()):
            return found
    return origin
