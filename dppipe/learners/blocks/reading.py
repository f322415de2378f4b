"""Reading the training records block by block, inside the gate's computation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy
import torch
from torch import Tensor

from dppipe.learners.blocks.assignment import block_numbers
from dppipe.learners.records.silenced_output import silenced

if TYPE_CHECKING:
    from dppipe.learners.records.training_records import TrainingRecords
    from dppipe.privacy.release import PublicFacts


class Block(NamedTuple):
    """The usable records of one block, in the order of the data; they are not private."""

    number: int
    """From 0 on."""
    inputs: Tensor
    """`[m, *input_shape]` float64, all finite; m is 0 for an empty block."""
    targets: Tensor
    """`[m]` int64 class numbers, or `[m, outputs]` float64 of a regression."""


def read_blocks(records: TrainingRecords, facts: PublicFacts, *, count: int) -> Iterator[Block]:
    """Yield `count` blocks, each with its usable records.

    Guarantee: blocks are disjoint, and each is a function of its own records and of public facts
    (`block_numbers`). So one unit's presence or content changes one block, and no other. Records
    are read only inside a gate's computation, and no record raises.

    Args:
        records: The training records.
        facts: The relation, the unit, the seed and the shapes.
        count: How many blocks there are; a public constant.
    """
    reader = records.reader(facts)
    with silenced():
        blocks = block_numbers(reader.dataset, facts, count=count)
    for number in range(count):
        records.refuse_outside()  # a generator may outlive the computation that made it
        indices = torch.from_numpy(numpy.flatnonzero(blocks == number))
        batch = reader.read_at(indices, size=len(indices))
        yield Block(number, batch.inputs[batch.usable], batch.targets[batch.usable])
