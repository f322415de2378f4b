"""Counting the votes of teachers on public inputs, inside the gate's computation.

Votes and teachers are secrets: they stay in memory, and nothing of them is logged or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dppipe.errors import UsageError
from dppipe.learners.blocks.reading import Block, read_blocks
from dppipe.learners.records.faults import SuppressRecordErrors
from dppipe.learners.records.silenced_output import silenced
from dppipe.learners.teaching.teachers import teacher_scores
from dppipe.learners.teaching.vote_bounds import classes_of

if TYPE_CHECKING:
    from dppipe.learners.job import Job
    from dppipe.learners.teaching.options import Teacher
    from dppipe.privacy.release import PublicFacts


class Voting:
    """The votes of one teacher for each block, on the same public inputs.

    Guarantees:
    - Counts can be had inside a gate's computation alone. The first one trains the teachers.
    - One unit changes the votes of one teacher: a teacher is trained on its block and on nothing
      else, and gives each input one vote or none.
    """

    def __init__(self, job: Job, teacher: Teacher, *, teachers: int, inputs: Tensor) -> None:
        # inputs: [n, *input_shape]
        self._job = job
        self._teacher = teacher
        self._teachers = teachers
        self._inputs = inputs
        self._counts: Tensor | None = None

    def largest_counts(self) -> Tensor:  # -> [n]
        """Return how many votes the winner has at each input."""
        return self._all_counts().amax(1)

    def counts_at(self, chosen: Tensor, rows: int) -> Tensor:  # [m] -> [rows, classes]
        """Return the counts at the chosen inputs, and zeros in the rows that are left."""
        found = self.no_counts(rows)
        found[: len(chosen)] = self._all_counts()[chosen]
        return found

    def no_counts(self, rows: int) -> Tensor:  # -> [rows, classes]
        """Return counts of no vote."""
        return torch.zeros(rows, classes_of(self._job.facts), dtype=torch.float64)

    def _all_counts(self) -> Tensor:  # -> [n, classes]
        self._job.records.refuse_outside()
        if self._counts is None:
            counts = self.no_counts(len(self._inputs))
            for block in read_blocks(self._job.records, self._job.facts, count=self._teachers):
                counts += votes_of(block, self._inputs, self._teacher, self._job.facts)
            self._counts = counts
        return self._counts


def votes_of(block: Block, inputs: Tensor, teacher: Teacher, facts: PublicFacts) -> Tensor:
    # -> [n, classes]
    """Return the votes of the teacher of one block: at most one in each row.

    Guarantee: they are a function of the block, its number and public facts. A teacher that has no
    record, raises or isn't sure of a number at some input abstains there. No record raises.
    """
    classes = classes_of(facts)
    scores = torch.full((len(inputs), classes), torch.nan, dtype=torch.float64)
    if len(block.inputs):
        with silenced(), SuppressRecordErrors():
            scores = teacher_scores(block, inputs, teacher, facts)
    votes = torch.nn.functional.one_hot(scores.argmax(1), classes).to(torch.float64)
    return votes * scores.isfinite().all(1, keepdim=True)


def public_inputs(job: Job, *, count: int) -> Tensor:  # -> [count, *input_shape]
    """Return the first public inputs; refuse a run that has fewer, before anything is charged."""
    inputs = job.public
    found = 0 if inputs is None else len(inputs)
    if inputs is None or found < count:
        raise UsageError(
            f"learner.public: expected {count} public inputs that can be used, got {found}. Give "
            "more, or lower learner.queries."
        )
    return inputs[:count]


def confident_places(largest: Tensor, *, threshold: float, most: int) -> Tensor:  # [n] -> [m]
    """Return the first inputs whose noisy largest count reaches the threshold."""
    return (largest >= threshold).nonzero().flatten()[:most]


def elect(noisy: Tensor) -> Tensor:  # [rows, classes] -> [rows]
    """Return the class with the largest noisy count."""
    return noisy.argmax(1)
